//! Analysis: what a trade would meet on its way.

pub mod intel_assess_mev_risk;
