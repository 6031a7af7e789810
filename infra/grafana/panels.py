"""Panels and dashboards in the one form that all of ours have."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass, field

from grafana_foundation_sdk.builders import (
    common,
    dashboard,
    heatmap,
    prometheus,
    stat,
    table,
    timeseries,
)
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models import prometheus as prometheus_models

from infra.grafana.queries import quantile

SOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
TAG = "lineage-master"
WIDTH = 24
"""Of a dashboard, in Grafana's units."""
GRAPH, STAT, TABLE = 8, 4, 12
"""Heights."""
QUANTILES = (0.5, 0.95, 0.99)

Panel = Builder[models.Panel]


@dataclass(frozen=True, slots=True)
class Query:
    """An expression, and how its series are called: text with ``{{label}}``."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """Values from which on a number is yellow and red."""

    warning: float
    critical: float


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its query gives one value for each row."""

    title: str
    expr: str
    unit: str = "short"
    words: Sequence[str] = field(default=())
    """What is shown instead of 0, 1, ..."""


def graph_panel(title: str, about: str, unit: str, *queries: Query, span: int = 8) -> Panel:
    """Lines over time; ``about`` says what it means that somebody should act on."""
    panel = (
        timeseries.Panel()
        .title(title)
        .description(about)
        .datasource(SOURCE)
        .unit(unit)
        .min(0)
        .span(span)
        .height(GRAPH)
        .fill_opacity(10)
        .legend(
            common.VizLegendOptions()
            .display_mode(common_models.LegendDisplayMode.LIST)
            .placement(common_models.LegendPlacement.BOTTOM)
            .show_legend(True)
        )
        .tooltip(common.VizTooltipOptions().mode(common_models.TooltipDisplayMode.MULTI))
    )
    for target in _targets(queries):
        panel = panel.with_target(target)
    return panel


def quantile_panel(title: str, about: str, histogram: str, where: str = "", span: int = 8) -> Panel:
    """How long most, nearly all and the slowest take."""
    lines = [
        Query(quantile(share, histogram, where=where), f"p{share * 100:g}") for share in QUANTILES
    ]
    return graph_panel(title, about, "s", *lines, span=span)


def number_panel(
    title: str, about: str, unit: str, expr: str, limits: Limits | None = None, span: int = 4
) -> Panel:
    """One number as it is now; red and yellow where there are limits."""
    panel = (
        stat.Panel()
        .title(title)
        .description(about)
        .datasource(SOURCE)
        .unit(unit)
        .span(span)
        .height(STAT)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .graph_mode(common_models.BigValueGraphMode.AREA)
        .thresholds(_thresholds(limits))
    )
    for target in _targets([Query(expr)]):
        panel = panel.with_target(target)
    return panel


def bucket_heatmap(title: str, about: str, expr: str, span: int = 12) -> Panel:
    """A histogram's buckets (``expr`` by ``le``) over time."""
    target = prometheus.Dataquery().expr(expr).legend_format("{{le}}").ref_id("A")
    target = target.format(prometheus_models.PromQueryFormat.HEATMAP).range()
    return (
        heatmap.Panel()
        .title(title)
        .description(about)
        .datasource(SOURCE)
        .unit("s")
        .span(span)
        .height(GRAPH)
        .calculate(False)
        .with_target(target)
    )


def label_table(title: str, about: str, keys: Sequence[str], columns: Sequence[Column]) -> Panel:
    """A table with a row for each combination of ``keys``, labels that every column's query gives."""
    names = dict(zip(string.ascii_uppercase, columns, strict=False))
    order = {key: index for index, key in enumerate(keys)}
    order |= {f"Value #{ref}": len(keys) + index for index, ref in enumerate(names)}
    titles = {f"Value #{ref}": column.title for ref, column in names.items()}
    panel = (
        table.Panel()
        .title(title)
        .description(about)
        .datasource(SOURCE)
        .span(WIDTH)
        .height(TABLE)
        .show_header(True)
        .with_transformation(models.DataTransformerConfig("merge", options={}))
        .with_transformation(
            models.DataTransformerConfig(
                "organize",
                options={
                    "excludeByName": {"Time": True},
                    "indexByName": order,
                    "renameByName": titles,
                },
            )
        )
    )
    for ref, column in names.items():
        target = prometheus.Dataquery().expr(column.expr).ref_id(ref).instant()
        panel = panel.with_target(target.format(prometheus_models.PromQueryFormat.TABLE))
        properties = [models.DynamicConfigValue("unit", column.unit)]
        if column.words:
            shown = {
                str(value): models.ValueMappingResult(text=word, index=value)
                for value, word in enumerate(column.words)
            }
            mapping = models.ValueMap(options=shown)
            properties.append(models.DynamicConfigValue("mappings", [mapping]))
        panel = panel.override_by_name(column.title, properties)
    return panel


def build_dashboard(uid: str, title: str, about: str, *parts: str | Panel) -> models.Dashboard:
    """A dashboard; texts among its parts begin rows."""
    builder = (
        dashboard.Dashboard(f"Lineage Master / {title}")
        .uid(uid)
        .description(about)
        .tags([TAG])
        .time("now-1h", "now")
        .timezone("browser")
        .refresh("30s")
        .readonly()
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .link(
            dashboard.DashboardLink("Lineage Master")
            .type(models.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .as_dropdown(True)
            .keep_time(True)
            .include_vars(True)
        )
        .with_variable(
            dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")
        )
        .with_variable(_label_variable("namespace", "Namespace", "lineage_.+"))
        .with_variable(_label_variable("job", "Job", 'lineage_.+",namespace=~"$namespace'))
    )
    for part in parts:
        if isinstance(part, str):
            builder = builder.with_row(dashboard.Row(part))
        else:
            builder = builder.with_panel(part)
    built = builder.build()
    for index, panel in enumerate(built.panels or (), 1):
        # Grafana would number them itself, in each import anew, and links to a panel name it.
        panel.id_val = index
    return built


def _label_variable(label: str, shown: str, names: str) -> Builder[models.VariableModel]:
    return (
        dashboard.QueryVariable(label)
        .label(shown)
        .datasource(SOURCE)
        .query(f'label_values({{__name__=~"{names}"}}, {label})')
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        # Not the list of what there is: outside of Kubernetes nothing has a namespace.
        .all_value(".*")
        .current(models.VariableOption(text="All", value="$__all", selected=True))
    )


def _targets(queries: Sequence[Query]) -> list[prometheus.Dataquery]:
    return [
        prometheus.Dataquery().expr(query.expr).legend_format(query.legend).ref_id(ref).range()
        for ref, query in zip(string.ascii_uppercase, queries, strict=False)
    ]


def _thresholds(limits: Limits | None) -> dashboard.ThresholdsConfig:
    steps = [models.Threshold(value=None, color="green")]
    if limits is not None:
        steps.append(models.Threshold(value=limits.warning, color="yellow"))
        steps.append(models.Threshold(value=limits.critical, color="red"))
    return dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps)
