//! Delegation rules. Delegation goes only to existing roles, without cycles, and over at most [`MAX_HOPS`] hops.
//! Terminal roles delegate nothing. Every writing role that is not terminal needs a path to the safety-guardian; for
//! terminal writers the guardian runs inside the pipeline.

use std::collections::{BTreeMap, BTreeSet};

use super::{Archetype, ArchetypeError, DelegationEdge, GUARDIAN, MAX_HOPS};
use bardo_base::text::{SafeText, nearest};

type Roles = BTreeMap<String, Archetype>;

/// Path along delegation edges.
type Path<'a> = Vec<&'a DelegationEdge>;

/// Violation, with the names of the roles on the path it concerns.
type Fault = (Vec<String>, ArchetypeError);

/// Returns the violations of the delegation rules. Later rules are checked only if the earlier ones hold. An edge to a
/// role in `broken` is not a violation: it is ignored.
pub(super) fn faults(roles: &Roles, broken: &BTreeSet<String>) -> Vec<Fault> {
    let mut faults = unknown(roles, broken);
    faults.extend(handed_on(roles));
    if !faults.is_empty() {
        return faults;
    }
    faults = circles(roles);
    if !faults.is_empty() {
        return faults;
    }
    faults.extend(too_deep(roles));
    faults.extend(unguarded(roles));
    faults
}

fn unknown(roles: &Roles, broken: &BTreeSet<String>) -> Vec<Fault> {
    let edges = roles.values().flat_map(|role| role.delegates_to.iter().map(move |edge| (role, edge)));
    let missing = edges.filter(|(_, edge)| !roles.contains_key(&edge.to) && !broken.contains(&edge.to));
    missing
        .map(|(role, edge)| {
            let near = nearest(&edge.to, roles.keys().map(String::as_str));
            let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            let what = format!("there is no archetype `{}` to delegate to{near}", SafeText::clean(&edge.to, 64));
            (vec![role.name.clone()], ArchetypeError::Line { place: edge.place.clone(), what })
        })
        .collect()
}

fn handed_on(roles: &Roles) -> Vec<Fault> {
    let terminal = roles.values().filter(|role| role.terminal);
    terminal
        .filter_map(|role| {
            let edge = role.delegates_to.first()?;
            let rule = format!("`{}` is terminal and must not delegate", role.name);
            let drawn = draw(role, &[edge], "a terminal role ends every path");
            Some((vec![role.name.clone()], ArchetypeError::Delegation { rule, drawn }))
        })
        .collect()
}

fn circles(roles: &Roles) -> Vec<Fault> {
    let mut found = Vec::new();
    let mut told: BTreeSet<BTreeSet<&str>> = BTreeSet::new();
    for role in roles.values() {
        if let Some(path) = back_to(roles, role, &role.name, &mut BTreeSet::new()) {
            let members = path.iter().map(|edge| edge.to.as_str()).collect();
            if told.insert(members) {
                let rule = format!("delegation is circular, starting at `{}`", role.name);
                let fault = ArchetypeError::Delegation { rule, drawn: draw(role, &path, "back here") };
                found.push((on(role, &path), fault));
            }
        }
    }
    found
}

/// Finds a shortest path of at least one hop from `role` to the role named `goal`.
fn back_to<'a>(roles: &'a Roles, role: &'a Archetype, goal: &str, seen: &mut BTreeSet<&'a str>) -> Option<Path<'a>> {
    let mut paths: Vec<(&Archetype, Path<'a>)> = vec![(role, Vec::new())];
    while !paths.is_empty() {
        let mut further = Vec::new();
        for (at, path) in paths {
            for edge in &at.delegates_to {
                let mut longer = path.clone();
                longer.push(edge);
                if edge.to == goal {
                    return Some(longer);
                }
                if seen.insert(&edge.to)
                    && let Some(next) = roles.get(&edge.to)
                {
                    further.push((next, longer));
                }
            }
        }
        paths = further;
    }
    None
}

/// Returns the longest path from a role. Requires that the role reaches no cycle.
fn longest<'a>(roles: &'a Roles, role: &'a Archetype) -> Path<'a> {
    let ways = role.delegates_to.iter().map(|edge| {
        let mut path = vec![edge];
        if let Some(next) = roles.get(&edge.to) {
            path.extend(longest(roles, next));
        }
        path
    });
    ways.max_by_key(Vec::len).unwrap_or_default()
}

fn too_deep(roles: &Roles) -> Vec<Fault> {
    let handed_to: BTreeSet<&str> =
        roles.values().flat_map(|role| role.delegates_to.iter().map(|edge| edge.to.as_str())).collect();
    // Only roots are checked: a chain that is too deep further down is part of a path from a root.
    let roots = roles.values().filter(|role| !handed_to.contains(role.name.as_str()));
    roots
        .filter_map(|role| {
            let path = longest(roles, role);
            if path.len() <= MAX_HOPS {
                return None;
            }
            let rule = format!("a chain of {} hops from `{}`; at most {MAX_HOPS} are allowed", path.len(), role.name);
            Some((on(role, &path), ArchetypeError::Delegation { rule, drawn: draw(role, &path, "too deep") }))
        })
        .collect()
}

fn unguarded(roles: &Roles) -> Vec<Fault> {
    let writers = roles.values().filter(|role| role.writes && !role.terminal);
    writers
        .filter(|role| {
            // An edge to a broken guardian does not count as a path.
            !roles.contains_key(GUARDIAN) || back_to(roles, role, GUARDIAN, &mut BTreeSet::new()).is_none()
        })
        .map(|role| {
            let rule = format!("`{}` writes, but no path leads to `{GUARDIAN}`: add it to delegates_to", role.name);
            let path = longest(roles, role);
            let fault = ArchetypeError::Delegation { rule, drawn: draw(role, &path, "no guardian on any path") };
            (vec![role.name.clone()], fault)
        })
        .collect()
}

/// Returns the names of the roles on a path, without duplicates.
fn on(from: &Archetype, path: &[&DelegationEdge]) -> Vec<String> {
    let all: BTreeSet<&String> = std::iter::once(&from.name).chain(path.iter().map(|edge| &edge.to)).collect();
    all.into_iter().cloned().collect()
}

/// Draws a path with one line per hop, each with its file and line.
fn draw(from: &Archetype, path: &[&DelegationEdge], last: &str) -> String {
    let mut drawn = format!("  {}  ({})", from.name, from.place);
    for (depth, edge) in path.iter().enumerate() {
        drawn.push_str(&format!("\n  {}→ {}  ({})", "  ".repeat(depth + 1), edge.to, edge.place));
    }
    drawn.push_str(&format!("  ← {last}"));
    drawn
}
