"""`recommend`: the files and data types that suit a processor."""

from bert_keras.extras import Processor


def recommend(processor: Processor) -> list[str]:
    """Return which files and data types suit a processor, as measured in docs/measurements/inference.md."""
    has = set(processor.features).__contains__
    if has("VNNI"):
        advice = ["8-bit ONNX in onnxruntime: a third to a half of the time of float32 (export --quantize auto)"]
    elif has("AVX-512"):
        advice = ["8-bit ONNX, static or per token, in OpenVINO; measure both"]
    elif has("AVX2"):
        advice = ["8-bit ONNX in onnxruntime: two thirds to three quarters of the time of float32; not in OpenVINO"]
    else:
        return ["no measurement for such a processor: compare the files with benchmarks/inference.py"]
    if has("BF16"):
        advice.append("float32 ONNX in OpenVINO, which computes in bfloat16 here: half the time of float32")
    else:
        advice.append("float32, not bfloat16: without BF16 instructions bfloat16 is slower")
    if has("AMX"):
        advice.append("AMX itself was not measured")
    return advice
