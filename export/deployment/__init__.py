"""The folder `deploy/` next to an ONNX folder: Docker, Kubernetes, KServe and Triton.

Start with `deployment_bundle.py`.
"""
