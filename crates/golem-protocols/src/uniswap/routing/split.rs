//! Splits: paths without shared pools, each with its share, if together they beat every single path after gas.
//!
//! The shares are found by giving 5 % at a time to the path that gains most. This is optimal for one set of paths as
//! long as each has diminishing returns. Then single percents move between paths while that improves the score. The
//! sets grow from a few good starts by the path that adds most. This is a heuristic: a better split may exist, but a
//! better single path does not.

use std::collections::BTreeMap;

use alloy::primitives::{I256, U256};

use super::PROMISING;
use super::graph::PoolPath;
use super::search::{PathSearch, ScoredPath};

/// Total of all shares, in percent.
const WHOLE: usize = 100;
/// Portion assigned at a time, in percent.
const PORTION: usize = 5;
/// Divisor of the amount for ranking paths, because a split uses each path for a part.
const SMALL_PART: u64 = 8;
/// Number of candidates from each ranking, and limit of those through one pool.
const FROM_SMALL: usize = 10;
const FROM_WHOLE: usize = 4;
const THROUGH_ONE_POOL: usize = 3;
/// Number of starts for a growing set.
const STARTS: usize = 3;
/// Maximum number of rounds that move single percents.
const ROUNDS: usize = 32;

/// Finds the best split of two or more legs, with their shares in basis points, largest first. `None` if it does not
/// beat the best single path, which is the first of `whole`.
pub(super) fn best_split(search: &PathSearch<'_>, whole: &[ScoredPath]) -> Option<Vec<(PoolPath, u32)>> {
    let amount = search.request.exact.amount();
    let small = search.paths((amount / U256::from(SMALL_PART)).max(U256::from(1)), PROMISING);
    let mut candidates = diverse(&small.found, FROM_SMALL);
    for path in diverse(whole, FROM_WHOLE) {
        if !candidates.contains(&path) {
            candidates.push(path);
        }
    }
    let mut table = ScoreTable { search, amount, rows: candidates.into_iter().map(ScoreRow::new).collect() };
    let mut best: Option<LegSplit> = None;
    let mut starts: Vec<usize> = (0..table.rows.len().min(STARTS)).collect();
    if let Some(at) = whole.first().and_then(|found| table.rows.iter().position(|row| row.path == found.path))
        && !starts.contains(&at)
    {
        starts.push(at);
    }
    for start in starts {
        if let Some(split) = grow(&mut table, start, search.request.max_legs)
            && best.as_ref().is_none_or(|best| split.score > best.score)
        {
            best = Some(split);
        }
    }
    let mut best = best?;
    refine(&mut table, &mut best);
    if whole.first().is_some_and(|single| single.score >= best.score) {
        return None;
    }
    let mut legs: Vec<(PoolPath, u32)> = best
        .shares
        .iter()
        .filter_map(|(row, share)| Some((table.rows.get(*row)?.path, u32::try_from(share * 10_000 / WHOLE).ok()?)))
        .collect();
    legs.sort_unstable_by(|left, right| right.1.cmp(&left.1).then(left.0.cmp(&right.0)));
    Some(legs)
}

/// Row and share in percent of each leg, with the total score.
#[derive(Debug, Clone)]
struct LegSplit {
    shares: Vec<(usize, usize)>,
    score: I256,
}

/// Scores of each candidate at each percentage, computed on demand.
struct ScoreTable<'a> {
    search: &'a PathSearch<'a>,
    amount: U256,
    rows: Vec<ScoreRow>,
}

struct ScoreRow {
    path: PoolPath,
    /// Indexed by percentage; the outer `None` means not computed yet.
    scores: Vec<Option<Option<I256>>>,
}

impl ScoreRow {
    fn new(path: PoolPath) -> Self {
        Self { path, scores: vec![None; WHOLE + 1] }
    }
}

impl ScoreTable<'_> {
    /// Returns the score of `percent` of the amount on one row; `None` if it cannot be filled. A share of zero scores
    /// zero, because an absent leg costs nothing.
    fn score(&mut self, row: usize, percent: usize) -> Option<I256> {
        if percent == 0 {
            return Some(I256::ZERO);
        }
        let (search, whole) = (self.search, self.amount);
        let ScoreRow { path, scores } = self.rows.get_mut(row)?;
        let slot = scores.get_mut(percent)?;
        if let Some(known) = slot {
            return *known;
        }
        let (hundredth, rest) = (whole / U256::from(WHOLE), whole % U256::from(WHOLE));
        let percent = U256::from(percent);
        let amount = hundredth.saturating_mul(percent) + rest * percent / U256::from(WHOLE);
        let score = search.quote_path(path, amount).map(|(amount, gas)| search.score(amount, gas));
        *slot = Some(score);
        score
    }

    fn total(&mut self, shares: &[(usize, usize)]) -> Option<I256> {
        shares.iter().try_fold(I256::ZERO, |sum, (row, share)| Some(sum.saturating_add(self.score(*row, *share)?)))
    }

    fn disjoint(&self, set: &[usize], row: usize) -> bool {
        let Some(candidate) = self.rows.get(row) else { return false };
        set.iter().filter_map(|at| self.rows.get(*at)).all(|other| !other.path.shares_a_pool_with(&candidate.path))
    }
}

/// Selects the first paths of a ranking, with a limit per pool.
fn diverse(ranked: &[ScoredPath], count: usize) -> Vec<PoolPath> {
    let mut uses: BTreeMap<usize, usize> = BTreeMap::new();
    let mut chosen = Vec::new();
    for found in ranked {
        if chosen.len() == count {
            break;
        }
        let crowded = |pool: &usize| uses.get(pool).is_some_and(|uses| *uses >= THROUGH_ONE_POOL);
        let pools = found.path.steps().iter().map(|step| step.pool);
        if pools.clone().any(|pool| crowded(&pool)) {
            continue;
        }
        pools.for_each(|pool| *uses.entry(pool).or_default() += 1);
        chosen.push(found.path);
    }
    chosen
}

/// Adds the row that helps most until none does. While the set cannot fill the amount, the best ranked disjoint row is
/// added.
fn grow(table: &mut ScoreTable<'_>, start: usize, max_legs: usize) -> Option<LegSplit> {
    let mut set = vec![start];
    let mut best: Option<LegSplit> = None;
    while set.len() < max_legs {
        let mut addition: Option<(usize, LegSplit)> = None;
        let mut fallback = None;
        for row in 0..table.rows.len() {
            if !table.disjoint(&set, row) {
                continue;
            }
            fallback = fallback.or(Some(row));
            set.push(row);
            if let Some(split) = share_out(table, &set)
                && addition.as_ref().is_none_or(|(_, best)| split.score > best.score)
            {
                addition = Some((row, split));
            }
            set.pop();
        }
        match (addition, fallback) {
            (Some((row, split)), _) => {
                if best.as_ref().is_some_and(|best| best.score >= split.score) {
                    break;
                }
                set.push(row);
                best = Some(split);
            }
            (None, Some(row)) if best.is_none() => set.push(row),
            _ => break,
        }
    }
    best
}

/// Gives every row of the set one portion, then each further portion to the row that gains most.
fn share_out(table: &mut ScoreTable<'_>, set: &[usize]) -> Option<LegSplit> {
    let mut shares: Vec<(usize, usize)> = set.iter().map(|row| (*row, PORTION)).collect();
    let mut given = PORTION * set.len();
    while given < WHOLE {
        let mut gains = Vec::with_capacity(shares.len());
        for (row, share) in &shares {
            let now = table.score(*row, *share)?;
            gains.push(table.score(*row, share + PORTION).map(|then| then.saturating_sub(now)));
        }
        // Ties go to the first row, so the result is deterministic.
        let best = gains.iter().flatten().max()?;
        let at = gains.iter().position(|gain| gain.as_ref() == Some(best))?;
        shares.get_mut(at)?.1 += PORTION;
        given += PORTION;
    }
    let score = table.total(&shares)?;
    Some(LegSplit { shares, score })
}

/// Moves single percents between legs while the score rises.
fn refine(table: &mut ScoreTable<'_>, split: &mut LegSplit) {
    for _ in 0..ROUNDS {
        let mut better: Option<LegSplit> = None;
        for from in 0..split.shares.len() {
            for to in 0..split.shares.len() {
                let mut shares = split.shares.clone();
                let Some(giver) = shares.get_mut(from).filter(|(_, share)| from != to && *share > 1) else { continue };
                giver.1 -= 1;
                let Some(taker) = shares.get_mut(to) else { continue };
                taker.1 += 1;
                let Some(score) = table.total(&shares) else { continue };
                if score > better.as_ref().map_or(split.score, |better| better.score) {
                    better = Some(LegSplit { shares, score });
                }
            }
        }
        match better {
            Some(better) => *split = better,
            None => break,
        }
    }
}
