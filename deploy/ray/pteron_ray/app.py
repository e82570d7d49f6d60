"""Builds the application: `serve run pteron_ray:build model=llama max_replicas=4`."""

import shlex

from pydantic import BaseModel, Field
from ray import serve
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy, RequestRouterConfig

from pteron_ray.gateway import Gateway
from pteron_ray.prefix import PrefixRouter
from pteron_ray.replica import Replica
from pteron_ray.scaling import QueuePolicy


class Options(BaseModel):
    """What an application may be told."""

    model: str = Field(
        "", description="as `pteron serve` takes it; the bundled model if empty"
    )
    pteron: str = Field("pteron", description="the command, on every node")
    options: str = Field("", description="further options of `pteron serve`")
    max_sequences: int = Field(
        64, description="texts that a replica generates in one step"
    )
    target: float = Field(
        0, description="requests per replica; three quarters of max_sequences if 0"
    )
    min_replicas: int = 1
    max_replicas: int = 1
    gpus: float = Field(1, description="GPUs of a replica")
    cpus: float = Field(1, description="processors of a replica")
    gateways: int = Field(1, description="processes that pass requests on")
    upscale_delay_s: float = 10
    downscale_delay_s: float = 120
    # How often queues are read, and the time over which they are averaged.
    metrics_interval_s: float = 2
    look_back_period_s: float = 10
    drain_s: float = Field(
        60, description="time that requests have to finish when a replica is stopped"
    )


def build(options: Options) -> serve.Application:
    command = [options.pteron, "serve", *([options.model] if options.model else [])]
    command += ["--max-sequences", str(options.max_sequences)]
    command += shlex.split(options.options)
    target = options.target or 0.75 * options.max_sequences
    scaling = AutoscalingConfig(
        min_replicas=options.min_replicas,
        max_replicas=options.max_replicas,
        # The policy has its own; this one is for what Ray shows.
        target_ongoing_requests=target,
        upscale_delay_s=options.upscale_delay_s,
        downscale_delay_s=options.downscale_delay_s,
        metrics_interval_s=options.metrics_interval_s,
        look_back_period_s=options.look_back_period_s,
        policy=AutoscalingPolicy(
            policy_function=QueuePolicy, policy_kwargs={"target": target}
        ),
    )
    replicas = serve.deployment(
        Replica,
        name="Pteron",
        autoscaling_config=scaling,
        max_ongoing_requests=options.max_sequences,
        request_router_config=RequestRouterConfig(request_router_class=PrefixRouter),
        graceful_shutdown_timeout_s=options.drain_s,
        graceful_shutdown_wait_loop_s=1,
        health_check_period_s=5,
        ray_actor_options={"num_gpus": options.gpus, "num_cpus": options.cpus},
    ).bind(command)
    return serve.deployment(
        Gateway,
        num_replicas=options.gateways,
        # Waiting is cheap here, and the queue is what scaling goes by.
        max_ongoing_requests=10_000,
        graceful_shutdown_timeout_s=options.drain_s,
        ray_actor_options={"num_cpus": 0.1},
    ).bind(replicas)
