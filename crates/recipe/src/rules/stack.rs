//! Checks of components against each other.

use serde_json::json;

use super::{KnownComponent, RuleTarget};
use catalog::nested::{self, HostComponent};
use contract::names::{DRA_DRIVER, GPU_OPERATOR};
use diagnostics::diagnostic::Diagnostic;
use diagnostics::lint::Lint;

/// Where the operator's driver container provides the driver on the host.
const OPERATOR_DRIVER_ROOT: &str = "/run/nvidia/driver";

/// Checks components against each other.
pub(crate) fn check(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    let operator = subject.component(GPU_OPERATOR);
    if let Some(dra) = subject.component(DRA_DRIVER) {
        dra_driver(subject, dra, operator, findings);
    }
    nested(subject, findings);
    if let (Some(plugin), Some(operator)) = (subject.component("nvidia-device-plugin"), operator)
        && operator.is_on(&["devicePlugin", "enabled"]) == Some(true)
    {
        Diagnostic::error("two device plugins would offer the same GPUs, because the GPU Operator also runs one")
            .lint(Lint::TwoDevicePlugins)
            .at(subject.place(&["components", plugin.name]))
            .hint("remove this component, or set `devicePlugin: {enabled: false}` in the values of `gpu-operator`")
            .report(findings);
    }
}

/// Reports sub-charts that would run a component twice and that the recipe enables explicitly. A
/// bundle disables only the others.
fn nested(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    let hosts: Vec<HostComponent<'_>> = subject.hosts().collect();
    for extra in nested::extras(&hosts).into_iter().filter(|extra| extra.is_explicit) {
        let switch = extra.nested.conditions.first().map_or("", String::as_str);
        let place: Vec<&str> =
            ["components", extra.host, "values"].into_iter().chain(switch.split('.')).collect();
        Diagnostic::error(format!(
            "`{}` would run twice: an earlier component, `{}`, runs it already",
            extra.nested.component, extra.runner
        ))
        .lint(Lint::RunsTwice)
        .at(subject.place(&place))
        .hint(format!("remove `{switch}`: a bundle sets it to false if another component runs it"))
        .report(findings);
    }
}

fn dra_driver(
    subject: &RuleTarget<'_>,
    dra: &KnownComponent<'_>,
    operator: Option<&KnownComponent<'_>>,
    findings: &mut Vec<Diagnostic>,
) {
    let values = ["components", dra.name, "values"];
    let gpus = dra.is_on(&["resources", "gpus", "enabled"]);
    if gpus == Some(true) && dra.is_on(&["gpuResourcesEnabledOverride"]) != Some(true) {
        Diagnostic::error("the chart refuses to publish GPUs unless `gpuResourcesEnabledOverride` is true")
            .lint(Lint::GpuOverride)
            .at(subject.place(&[&values[..], &["resources", "gpus", "enabled"]].concat()))
            .hint("set `gpuResourcesEnabledOverride: true`; or, for ComputeDomains alone, `resources: {gpus: {enabled: false}}`")
            .report(findings);
    }
    if gpus == Some(true)
        && operator
            .is_some_and(|operator| operator.is_on(&["devicePlugin", "enabled"]) == Some(true))
    {
        Diagnostic::warning("the device plugin and the DRA driver offer the same GPUs, so the scheduler assigns them twice")
                .lint(Lint::PluginAndDra)
                .at(subject.place(&["components", dra.name]))
                .hint("set `devicePlugin: {enabled: false}` in the values of `gpu-operator`; or, for ComputeDomains alone, `resources: {gpus: {enabled: false}}` in the values of the DRA driver")
                .hint("ignore this warning if each node has only one of them (node selectors)").report(findings);
    }
    let managed =
        operator.is_some_and(|operator| operator.is_on(&["driver", "enabled"]) == Some(true));
    let root = dra.value(&["nvidiaDriverRoot"]);
    let preinstalled =
        operator.is_some_and(|operator| operator.is_on(&["driver", "enabled"]) == Some(false));
    if preinstalled && root.as_ref() == Some(&json!(OPERATOR_DRIVER_ROOT)) {
        Diagnostic::warning(
            "the DRA driver would look for a driver that the GPU Operator does not install",
        )
        .lint(Lint::DriverRoot)
        .at(subject.place(&[&values[..], &["nvidiaDriverRoot"]].concat()))
        .related(
            subject.place(&["components", GPU_OPERATOR, "values", "driver", "enabled"]),
            "the driver is preinstalled",
        )
        .hint(format!(
            "set `nvidiaDriverRoot` of `{}` to the directory of the preinstalled driver: mostly `/`, on Google GKE `/home/kubernetes/bin/nvidia`",
            dra.name
        ))
        .report(findings);
    }
    if managed && root.as_ref().is_some_and(|root| *root != json!(OPERATOR_DRIVER_ROOT)) {
        Diagnostic::error(
            "the DRA driver would not find the driver that the GPU Operator installs",
        )
        .lint(Lint::DriverRoot)
        .at(subject.place(&[&values[..], &["nvidiaDriverRoot"]].concat()))
        .hint(format!(
            "set `nvidiaDriverRoot: {OPERATOR_DRIVER_ROOT}` in the values of `{}`",
            dra.name
        ))
        .report(findings);
    }
}
