"""The files in `deploy/`: images, manifests and a model repository that serve an ONNX folder elsewhere."""

import json
import math
import os
import pathlib
import re
from collections.abc import Mapping, Sequence
from string import Template

from bert_keras import __version__
from bert_keras.export.deployment import docker_templates, kubernetes_templates, readme_templates, triton_templates
from bert_keras.export.deployment.server_packages import SERVER_PACKAGES, TRITON_PACKAGES
from bert_keras.export.saved_model.serving_bundle import EXAMPLE_IDS, EXAMPLE_TEXTS
from bert_keras.export.settings import check_model_name
from bert_keras.serving.worker.signature_outputs import describe_signature_outputs
from bert_keras.serving.worker.tensor_spec import TensorSpec
from bert_keras.tasks.base import Task
from bert_keras.tasks.mask_filling import MASK  # noqa

MAX_BATCH_SIZE = 128  # texts per request and batch in Triton
