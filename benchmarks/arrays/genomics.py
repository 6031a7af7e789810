"""The paper's genomics workflow: a model of relapse is trained on patients and predicts others (section VIII.B).

The data are drawn, and what the UDFs compute is of the kind that the paper describes: E and G take the features of a model out of
a matrix, F makes the model, H predicts. Neither the authors' data nor their code is published.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.arrays.workloads import Question, Workload
from lineage_arrays.mappings import AllToAll, Boxes, Mapping, Span
from lineage_arrays.operators import Mode, Operator, OperatorGraph, Regions, Shapes, Step

PATIENTS, FEATURES = 56, 100
REPLICAS = 100
"""How many times the paper repeats the patients."""
CHOSEN = 20
"""Features of the model."""
RELAPSE, NONE, SPREAD = range(3)
"""Columns of a model: the mean of patients with a relapse, of those without, and how far all of them vary."""

F64 = npt.NDArray[np.float64]


def matrices(replicas: int = REPLICAS, seed: int = 2) -> dict[str, F64]:
    """Patients with known outcome, the outcomes, and patients to predict; with values that are missing."""
    random = np.random.default_rng(seed)
    patients = PATIENTS * replicas
    outcome = (random.random(patients) < 0.4).astype(np.float64)
    effect = np.where(random.random(FEATURES) < 0.2, random.normal(0, 2, FEATURES), 0.0)
    taken = {}
    for name, of in (("training", outcome), ("test", random.random(patients) < 0.4)):
        values = random.normal(5, 1, (patients, FEATURES)) + np.outer(of, effect)
        values.reshape(-1)[random.integers(0, values.size, values.size // 200)] = np.nan
        taken[name] = values
    return {**taken, "outcome": outcome}


class ChosenColumns(Operator):
    """UDFs E and G: the columns of a matrix that an array of numbers names."""

    name = "chosen-columns"

    def supported_modes(self) -> frozenset[Mode]:
        return frozenset({Mode.FULL, Mode.PAY})

    def run(self, *inputs: Any, modes: frozenset[Mode]) -> F64:
        matrix, chosen = inputs
        for at, column in enumerate(chosen.tolist()):
            if Mode.PAY in modes:
                self.lwrite((slice(None), at), int(column).to_bytes(4, "little"))
        if Mode.FULL in modes:
            self._write_pairs(matrix.shape, chosen)
        values: F64 = matrix[:, chosen]
        return values

    def _write_pairs(self, shape: tuple[int, int], chosen: Any) -> None:
        """A region pair of each cell."""
        rows, columns = shape
        output = (rows, len(chosen))
        cells = np.arange(rows)[:, None] * columns + chosen
        self.lwrite_many(
            Regions.of_rows(output, np.arange(cells.size)),
            Regions.of_rows(shape, cells.reshape(-1)),
            Regions.of_rows(chosen.shape, np.tile(np.arange(len(chosen)), rows)),
        )

    def map_p(self, cell: tuple[int, ...], payload: bytes, operand: int, shapes: Shapes) -> Any:
        return (cell[0], int.from_bytes(payload, "little")) if operand == 0 else (cell[1],)

    def mapping_p(self, payload: bytes, operand: int, shapes: Shapes) -> Mapping:
        source, target = shapes.inputs[operand], shapes.output
        if operand == 1:
            return Boxes(source, target, (Span.point(1),))
        column = int.from_bytes(payload, "little")
        return Boxes(source, target, (Span.point(0), Span(column, column)))


class RelapseModel(Operator):
    """UDF F: of each feature the mean over patients with a relapse, over those without, and how far it varies."""

    name = "relapse-model"

    def supported_modes(self) -> frozenset[Mode]:
        return frozenset({Mode.FULL, Mode.PAY})

    def run(self, *inputs: Any, modes: frozenset[Mode]) -> F64:
        values, outcome = inputs
        groups = {
            RELAPSE: outcome == 1,
            NONE: outcome == 0,
            SPREAD: np.ones(len(outcome), np.bool_),
        }
        model = np.stack(
            [values[groups[RELAPSE]].mean(axis=0), values[groups[NONE]].mean(axis=0), values.std(axis=0)],
            axis=1,
        )  # fmt: skip
        for column, group in groups.items():
            if Mode.PAY in modes:
                self.lwrite((slice(None), column), np.packbits(group).tobytes())
            if Mode.FULL in modes:
                patients = np.flatnonzero(group)
                for feature in range(values.shape[1]):
                    of_feature = (patients, np.full(len(patients), feature))
                    self.lwrite((feature, column), of_feature, (patients,))
        return model

    def map_p(self, cell: tuple[int, ...], payload: bytes, operand: int, shapes: Shapes) -> Any:
        count = shapes.inputs[1][0]
        patients = np.flatnonzero(np.unpackbits(np.frombuffer(payload, np.uint8), count=count))
        return (patients, np.full(len(patients), cell[0])) if operand == 0 else (patients,)


class Prediction(Operator):
    """UDF H: of each patient, how much nearer the features are to those with a relapse than to those without."""

    name = "prediction"

    def supported_modes(self) -> frozenset[Mode]:
        return frozenset({Mode.FULL, Mode.MAP})

    def run(self, *inputs: Any, modes: frozenset[Mode]) -> F64:
        values, model = inputs
        far = [
            np.abs(values - model[:, group]) / (model[:, SPREAD] + 1e-9)
            for group in (NONE, RELAPSE)
        ]
        score: F64 = (far[0] - far[1]).sum(axis=1)
        if Mode.FULL in modes:
            patients = np.arange(len(values))
            low = np.stack([patients, np.zeros_like(patients)], axis=1)
            whole = np.zeros((len(patients), 2), np.int64)
            self.lwrite_many(
                Regions.of_rows(score.shape, patients),
                Regions.of_boxes(values.shape, low, low + np.array([0, values.shape[1] - 1])),
                Regions.of_boxes(model.shape, whole, whole + np.array(model.shape) - 1),
            )
        return score

    def map_b(self, cell: tuple[int, ...], operand: int, shapes: Shapes) -> Any:
        return (cell[0], slice(None)) if operand == 0 else ...

    def map_f(self, cell: tuple[int, ...], operand: int, shapes: Shapes) -> Any:
        return (cell[0],) if operand == 0 else ...

    def mapping(self, operand: int, shapes: Shapes) -> Mapping:
        source, target = shapes.inputs[operand], shapes.output
        if operand == 1:
            return AllToAll(source, target)
        return Boxes(source, target, (Span.point(0), Span.all(source[1])))


# The built-in operators, as plain NumPy code.


def filled(values: Any) -> Any:
    return np.nan_to_num(values, nan=5.0)


def clipped(values: Any) -> Any:
    return np.clip(values, -20.0, 20.0)


def centers(values: Any) -> Any:
    return values.mean(axis=0)


def spreads(values: Any) -> Any:
    return values.std(axis=0)


def standardized(values: Any, center: Any, spread: Any) -> Any:
    return (values - center) / spread


def correlations(values: Any, outcome: Any) -> Any:
    return np.abs((outcome - outcome.mean()) @ values)


def strongest(correlation: Any) -> Any:
    return np.argsort(correlation)[::-1][:CHOSEN]


def rounded(values: Any) -> Any:
    return np.round(values, 4)


def genomics(replicas: int = REPLICAS) -> Workload:
    """Ten built-in operators, of which `standardized`, `filled` and `clipped` stand in training and in prediction, and the UDFs E to H."""
    graph = OperatorGraph()
    training, outcome, test = (graph.source(name) for name in ("training", "outcome", "test"))
    known, unknown = (graph.apply(clipped, graph.apply(filled, one)) for one in (training, test))
    center, spread = graph.apply(centers, known), graph.apply(spreads, known)
    known, unknown = (graph.apply(standardized, one, center, spread) for one in (known, unknown))
    chosen = graph.apply(strongest, graph.apply(correlations, known, outcome))
    of_training = graph.add(ChosenColumns(), known, chosen, name="training-features")
    model = graph.add(RelapseModel(), of_training, outcome, name="model")
    of_test = graph.add(ChosenColumns(), unknown, chosen, name="test-features")
    scores = graph.add(Prediction(), of_test, model, name="scores")
    final = graph.apply(rounded, scores, name="final")
    return Workload(
        graph, lambda: matrices(replicas), lambda arrays: _questions(training, test, model, final)
    )


def _questions(training: Step, test: Step, model: Step, final: Step) -> list[Question]:
    """Two backward, two forward: of a prediction and a cell of the model, of a cell of either matrix."""
    return [
        Question("prediction", final, (7,)),
        Question("model-cell", model, (3, RELAPSE)),
        Question("training-forward", model, (11, 5), source=training),
        Question("test-forward", final, (7, 5), source=test),
    ]
