//! Intelligence tools: risk analysis of planned trades.

pub mod intel_assess_mev_risk;
