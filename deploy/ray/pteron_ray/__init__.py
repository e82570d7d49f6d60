"""A Ray Serve application whose replicas are `pteron serve`."""

from pteron_ray.app import build

__all__ = ["build"]
