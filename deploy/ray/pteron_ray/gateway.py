"""The gateway: takes HTTP requests, has one replica answer each, and passes disconnects on."""

from collections.abc import AsyncIterator

from ray.exceptions import RayError
from ray.serve.handle import DeploymentHandle
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from pteron_ray.prefix import blocks, text_of
from pteron_ray.replica import without_connection

# Replicas that are tried, where nothing of an answer has been passed on.
ATTEMPTS = 5


class Gateway:
    def __init__(self, replicas: DeploymentHandle):
        self._replicas = replicas.options(stream=True, method_name="forward")

    async def __call__(self, request: Request) -> Response:
        try:
            body = await request.body()
        except ClientDisconnect:
            return Response(status_code=499)
        target = request.url.path + (
            f"?{request.url.query}" if request.url.query else ""
        )
        headers = without_connection(request.headers.items())
        beginnings = blocks(text_of(body))
        for _ in range(ATTEMPTS):
            answer = self._replicas.remote(
                request.method, target, headers, body, beginnings=beginnings
            )
            try:
                status, answered = await anext(answer)
            except (RayError, OSError) as error:
                # The replica is gone, and Ray starts another one. Nobody has seen anything of its answer.
                reason = str(error).splitlines()[0]
                continue
            response = StreamingResponse(passed_on(answer), status_code=status)
            # Not through the constructor: a name may occur twice.
            response.raw_headers = [
                (name.lower().encode("latin-1"), value.encode("latin-1"))
                for name, value in answered
            ]
            return response
        error = {"message": f"no replica answers: {reason}", "type": "server_error"}
        return JSONResponse(
            {"error": error | {"param": None, "code": "model_unavailable"}},
            status_code=503,
            headers={"Retry-After": "5"},
        )


async def passed_on(answer: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    try:
        async for chunk in answer:
            yield chunk
    finally:
        # The client has left, or all is sent.
        answer.cancel()
