//! Search of the memory by words.
//!
//! A full ranking looks at every entry that contains any of the words. Some words are in nearly every entry, so that
//! such a search takes longer with each trade. Here at most [`WINDOW`] entries are read for each word and kind, the
//! newest ones, and those that contain all words. An entry scores the sum of its words' weights; a word weighs more the
//! rarer it is, as in the inverse document frequency
//! ([Spärck Jones 1972](https://doi.org/10.1108/eb026526)). A rare word is thus found however old its entry is; of the
//! many entries with common words alone, the newest come first.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use super::{EntryKind, MemoryHit, signed, unsigned};
use bardo_base::text::SafeText;
use bardo_store::StoreError;

/// Puts each entry's owner and kind among the words, so that a search passes over the entries of others.
pub(super) const SCOPED: &str = "
    ALTER TABLE golem_words RENAME TO golem_words_unscoped;
    CREATE VIRTUAL TABLE golem_words USING fts5 (scope, text, kind UNINDEXED, ref UNINDEXED);
    INSERT INTO golem_words (rowid, scope, text, kind, ref)
        SELECT rowid, 'g' || hex(golem_id) || ' k' || kind, text, kind, ref FROM golem_words_unscoped;
    DROP TABLE golem_words_unscoped;
";

/// Maximum number of entries that are read for one word and kind.
const WINDOW: usize = 200;
/// Maximum number of results of one search.
const MOST_HITS: usize = 50;
/// Maximum number of words used from a query. A set of them fits into 16 bits.
const MOST_WORDS: usize = 16;
/// Kinds by their place among equally good entries: what was learned from several trades comes before one trade.
const KINDS: [EntryKind; 3] = [EntryKind::Heuristic, EntryKind::Insight, EntryKind::Episode];

/// Puts a text into the search index, replacing the previous text of the entry.
///
/// # Errors
/// [`StoreError`] if the database fails.
pub(super) fn index(
    transaction: &Transaction<'_>,
    golem_id: &str,
    kind: EntryKind,
    id: i64,
    text: &str,
) -> Result<(), StoreError> {
    // Rows of the index are addressed only by their id: episodes have even ids, notes odd ones.
    let row = match kind {
        EntryKind::Episode => id.saturating_mul(2),
        EntryKind::Insight | EntryKind::Heuristic => id.saturating_mul(2).saturating_add(1),
    };
    transaction.prepare_cached("DELETE FROM golem_words WHERE rowid = ?1")?.execute([row])?;
    transaction
        .prepare_cached(
            "INSERT INTO golem_words (rowid, scope, text, kind, ref)
             VALUES (?1, 'g' || hex(?2) || ' k' || ?3, ?4, ?3, ?5)",
        )?
        .execute(params![row, golem_id, kind.as_str(), text, id])?;
    Ok(())
}

/// Returns up to `most` entries of a Golem with any word of `query`, best match first.
///
/// # Errors
/// [`StoreError`] if the database fails.
pub(super) fn search(
    connection: &Connection,
    golem_id: &str,
    query: &str,
    kind: Option<EntryKind>,
    most: usize,
) -> Result<Vec<MemoryHit>, StoreError> {
    let words = search_terms(query);
    let mut found = Vec::new();
    for (place, one) in KINDS.into_iter().enumerate().filter(|(_, one)| kind.is_none_or(|kind| kind == *one)) {
        found.push((place, candidates(connection, golem_id, one, &words)?));
    }
    let mut counts = vec![0.0; words.len()];
    for (_, kind) in &found {
        for (count, of_kind) in counts.iter_mut().zip(&kind.counts) {
            *count += of_kind;
        }
    }
    let all = counts.iter().copied().fold(0.0, f64::max);
    let weights: Vec<f64> = counts.iter().map(|count| (1.0 + all / count.max(1.0)).ln()).collect();
    let score = |set: u16| -> f64 {
        let has = |at: usize| set & (1 << at) != 0;
        weights.iter().enumerate().filter(|(at, _)| has(*at)).map(|(_, weight)| weight).sum()
    };
    let mut ranked: Vec<(f64, usize, i64)> =
        found.iter().flat_map(|(place, kind)| kind.rows.iter().map(|(row, set)| (score(*set), *place, *row))).collect();
    ranked.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)).then(other.2.cmp(&one.2)));
    ranked.truncate(most.clamp(1, MOST_HITS));
    ranked.into_iter().filter_map(|(_, place, row)| hit(connection, *KINDS.get(place)?, row).transpose()).collect()
}

/// Entries of one kind that may be among the results.
struct Candidates {
    /// Words that each entry was found by, as a set of bits, by row of the index.
    rows: HashMap<i64, u16>,
    /// Number of entries with each word; an estimate above [`WINDOW`].
    counts: Vec<f64>,
}

fn candidates(
    connection: &Connection,
    golem_id: &str,
    kind: EntryKind,
    words: &[String],
) -> Result<Candidates, StoreError> {
    let mut asked = connection
        .prepare_cached("SELECT rowid FROM golem_words WHERE golem_words MATCH ?1 ORDER BY rowid DESC LIMIT ?2")?;
    let owner: String = golem_id.bytes().map(|byte| format!("{byte:02x}")).collect();
    let scope = format!("scope : g{owner} AND scope : k{}", kind.as_str());
    let mut newest = |condition: String| -> Result<Vec<i64>, rusqlite::Error> {
        let query = format!("{scope} AND {condition}");
        asked.query_map(params![query, signed(WINDOW as u64)], |row| row.get(0))?.collect()
    };
    let (mut rows, mut counts) = (HashMap::new(), Vec::with_capacity(words.len()));
    for (at, word) in words.iter().enumerate() {
        let found = newest(format!("text : {word}"))?;
        counts.push(count(&found));
        for row in found {
            *rows.entry(row).or_insert(0) |= 1 << at;
        }
    }
    if words.len() > 1 {
        let every = words.iter().enumerate().fold(0, |set, (at, _)| set | 1 << at);
        let condition = words.iter().map(|word| format!("text : {word}")).collect::<Vec<_>>().join(" AND ");
        rows.extend(newest(condition)?.into_iter().map(|row| (row, every)));
    }
    Ok(Candidates { rows, counts })
}

/// Estimates the number of entries with a word from the newest of them: they are as dense among older ones.
fn count(newest: &[i64]) -> f64 {
    let (Some(first), Some(last)) = (newest.first(), newest.last()) else { return 0.0 };
    let found = newest.len() as f64;
    if newest.len() < WINDOW {
        return found;
    }
    // Row numbers are far below 2^52.
    found * (*first as f64) / ((first - last + 1) as f64)
}

fn hit(connection: &Connection, kind: EntryKind, row: i64) -> Result<Option<MemoryHit>, StoreError> {
    let mut entry = connection.prepare_cached("SELECT ref, text FROM golem_words WHERE rowid = ?1")?;
    let entry = entry.query_row([row], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))).optional()?;
    let Some((id, text)) = entry else { return Ok(None) };
    let table = match kind {
        EntryKind::Insight | EntryKind::Heuristic => "SELECT at FROM golem_note WHERE id = ?1",
        EntryKind::Episode => "SELECT at FROM golem_episode WHERE id = ?1",
    };
    let at: Option<i64> = connection.prepare_cached(table)?.query_row([id], |row| row.get(0)).optional()?;
    Ok(Some(MemoryHit { kind, id, at: at.map_or(0, unsigned), text: SafeText::clean(&text, 600) }))
}

/// Splits a query into its words, each once, quoted so that none acts as an operator.
fn search_terms(query: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in query.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let word = format!("\"{}\"", word.chars().take(40).collect::<String>().to_lowercase());
        if words.len() < MOST_WORDS && !words.contains(&word) {
            words.push(word);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use bardo_store::{Store, StoreConfig};

    use super::*;

    fn store() -> (Store, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        (Store::open(StoreConfig::at(folder.path().join("memory.db")), &[super::super::MIGRATIONS]).unwrap(), folder)
    }

    async fn keep(store: &Store, golem_id: &'static str, kind: EntryKind, texts: Vec<(i64, String)>) {
        let write = store.write(move |transaction| {
            texts.iter().try_for_each(|(id, text)| index(transaction, golem_id, kind, *id, text))
        });
        write.await.unwrap();
    }

    fn found(store: &Store, golem_id: &str, query: &str, most: usize) -> Vec<(EntryKind, i64)> {
        let hits = store.read(|connection| search(connection, golem_id, query, None, most)).unwrap();
        hits.into_iter().map(|hit| (hit.kind, hit.id)).collect()
    }

    #[tokio::test]
    async fn rare_words_are_found_however_old_and_common_ones_by_their_newest_entries() {
        let (store, _folder) = store();
        let text = |id: i64| match id {
            7 => "weth usdc the pelican".to_owned(),
            // Each word is common, and only these two entries have both.
            20 | 2_500 => "weth uni".to_owned(),
            id if id % 2 == 0 => "weth usdc".to_owned(),
            _ => "uni usdc".to_owned(),
        };
        keep(&store, "ada", EntryKind::Episode, (1..=5_000).map(|id| (id, text(id))).collect()).await;
        keep(
            &store,
            "bob",
            EntryKind::Episode,
            (5_001..=8_000).map(|id| (id, "pelican weth uni usdc".into())).collect(),
        )
        .await;
        let episodes = |ids: &[i64]| ids.iter().map(|id| (EntryKind::Episode, *id)).collect::<Vec<_>>();
        assert_eq!(found(&store, "ada", "Pelican", 5), episodes(&[7]));
        assert_eq!(found(&store, "ada", "usdc pelican weth", 3), episodes(&[7, 5_000, 4_998]));
        assert_eq!(
            found(&store, "ada", "weth uni", 4),
            episodes(&[2_500, 20, 4_999, 4_997]),
            "\"uni\" is in one entry less"
        );
        assert_eq!(found(&store, "ada", "usdc", 3), episodes(&[5_000, 4_999, 4_998]));
        assert_eq!(found(&store, "carol", "usdc", 3), []);
        assert_eq!(found(&store, "ada", "", 3), []);
        assert_eq!(found(&store, "ada", "scope kepisode g616461", 3), [], "owner and kind are no words of a text");
    }

    #[test]
    fn a_search_takes_its_words_as_plain_text() {
        let quoted = ["\"a\"", "\"and\"", "\"b\"", "\"near\"", "\"x\""];
        assert_eq!(search_terms("a AND b* NEAR(\"x\") -- '"), quoted);
        assert_eq!(search_terms(" \"' * "), [""; 0]);
        let many: String = (0..40).map(|number| format!("w{number} ")).collect();
        assert_eq!(search_terms(&many).len(), MOST_WORDS);
        assert_eq!(search_terms("ada Ada ADA"), ["\"ada\""]);
    }

    #[tokio::test]
    async fn what_was_learned_comes_before_single_trades() {
        let (store, _folder) = store();
        keep(&store, "ada", EntryKind::Episode, (1..=1_000).map(|id| (id, "swap weth".into())).collect()).await;
        keep(&store, "ada", EntryKind::Insight, vec![(1, "swap weth: 3 of 3".into())]).await;
        keep(&store, "ada", EntryKind::Heuristic, vec![(2, "swap weth: 20 bps".into())]).await;
        let first = [(EntryKind::Heuristic, 2), (EntryKind::Insight, 1), (EntryKind::Episode, 1_000)];
        assert_eq!(found(&store, "ada", "weth", 3), first);
        // A text that is replaced is found by its new words only.
        keep(&store, "ada", EntryKind::Insight, vec![(1, "transfer dai".into())]).await;
        assert_eq!(found(&store, "ada", "dai", 3), [(EntryKind::Insight, 1)]);
        assert_eq!(found(&store, "ada", "swap", 2), [(EntryKind::Heuristic, 2), (EntryKind::Episode, 1_000)]);
    }
}
