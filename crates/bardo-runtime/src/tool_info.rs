//! Tools of the catalog as screens show them.

use bardo_base::model::{Phase, Profile};
use bardo_base::text::SafeText;
use bardo_session::handle::ToolInfo;
use golem_tools::engine::{CatalogEntry, categories_of};

/// View model of a tool.
pub fn tool_info(entry: &CatalogEntry) -> ToolInfo {
    let meta = &entry.def.meta;
    let text = |words: &str| SafeText::clean(words, 2_000);
    let guideline = |phase: &Phase| {
        let said = meta.prompt_guidelines.for_phase(*phase);
        (*phase, text(said))
    };
    ToolInfo {
        name: text(meta.name),
        description: text(meta.description),
        category: meta.category,
        profiles: Profile::ALL.iter().copied().filter(|one| categories_of(*one).contains(&meta.category)).collect(),
        capability: meta.capability,
        risk_tier: meta.risk_tier,
        tick_budget: meta.tick_budget,
        progress_steps: meta.progress_steps.iter().map(|step| text(step)).collect(),
        action_class: meta.action_class,
        checks: meta.checks.to_vec(),
        prompt_snippet: text(meta.prompt_snippet),
        guidelines: Phase::ALL.iter().map(guideline).collect(),
        input_schema: entry.input_schema.clone(),
        output_schema: entry.output_schema.clone(),
        example: entry.example.clone(),
    }
}
