"""Look at a model before, during and after training: its cost model, and what it computes on one text.

Start with `cost_model/planning.py` (`bk.plan`) and `inspection/inspecting.py` (`bk.inspect`).
"""
