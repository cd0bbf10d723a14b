//! Tables of the ledger.

use bardo_store::Migrations;

/// Migrations of the ledger's tables.
///
/// Times are in milliseconds of the ledger's own clock, dollars in millionths. Settled amounts are in append-only logs
/// with a running total in each row, so the sum over a window takes two look-ups, however many rows it contains.
pub const MIGRATIONS: Migrations =
    Migrations { room: "ledger", steps: &[FIRST, LIQUIDATIONS, MOVED, BRIDGED, RATES, RISES, CALLERS] };

/// Adds an index for the rate of revocations, the traded value of each reservation, and the largest failed trade that
/// the breaker counts. Both values are in millionths of a dollar; the breaker compares a success with them.
const RATES: &str = "
    ALTER TABLE ledger_reservation ADD COLUMN traded INTEGER NOT NULL DEFAULT 0 CHECK (traded >= 0);
    ALTER TABLE ledger_breaker ADD COLUMN largest INTEGER NOT NULL DEFAULT 0 CHECK (largest >= 0);
    CREATE INDEX ledger_reservation_revocations ON ledger_reservation (account, reserved_at)
        WHERE trade = 0 AND state NOT IN ('not_sent', 'withdrawn');
";

/// Adds the caller to each call, so that the operator and every Golem have a window of their own.
const CALLERS: &str = "
    ALTER TABLE ledger_call ADD COLUMN golem_id TEXT NOT NULL DEFAULT '';
    CREATE INDEX ledger_call_caller ON ledger_call (golem_id, at);
";

/// Adds pending rises of the high-water marks: the lowest value read since the start, and the number of readings.
const RISES: &str = "
    CREATE TABLE ledger_mark_rise (
        chain_id INTEGER NOT NULL,
        account TEXT NOT NULL,
        micros INTEGER NOT NULL CHECK (micros >= 0),
        since INTEGER NOT NULL,
        readings INTEGER NOT NULL CHECK (readings > 0),
        PRIMARY KEY (chain_id, account)
    ) STRICT, WITHOUT ROWID;
";

/// Adds bridge orders that have not ended: the order's value and the account's total when last weighed, whether the
/// order was seen then, and the destination's mark at the reservation.
const BRIDGED: &str = "
    CREATE TABLE ledger_bridged (
        reservation INTEGER PRIMARY KEY REFERENCES ledger_reservation (id),
        chain_id INTEGER NOT NULL,
        account TEXT NOT NULL,
        worth INTEGER NOT NULL CHECK (worth >= 0),
        whole INTEGER NOT NULL CHECK (whole >= worth),
        least INTEGER NOT NULL CHECK (least BETWEEN worth AND whole),
        seen INTEGER NOT NULL CHECK (seen IN (0, 1)),
        to_chain INTEGER NOT NULL,
        to_mark INTEGER NOT NULL CHECK (to_mark >= 0)
    ) STRICT;
    CREATE INDEX ledger_bridged_account ON ledger_bridged (account, chain_id);
";

/// Adds a separate clock for calls, so that calls do not advance the clock of the spending windows. Adds the value that
/// each action moved out of the account, without allowances and gas.
const MOVED: &str = "
    CREATE TABLE ledger_call_clock (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        now INTEGER NOT NULL CHECK (now >= 0)
    ) STRICT;

    CREATE TABLE ledger_moved (
        reservation INTEGER NOT NULL REFERENCES ledger_reservation (id),
        chain_id INTEGER NOT NULL,
        token TEXT NOT NULL,
        micros INTEGER NOT NULL CHECK (micros >= 0),
        at INTEGER,
        PRIMARY KEY (reservation, chain_id, token)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX ledger_moved_at ON ledger_moved (chain_id, token, at, micros) WHERE at IS NOT NULL;
";

const FIRST: &str = "
    CREATE TABLE ledger_clock (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        now INTEGER NOT NULL CHECK (now >= 0)
    ) STRICT;

    CREATE TABLE ledger_reservation (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        call_id TEXT NOT NULL,
        golem_id TEXT NOT NULL,
        chain_id INTEGER NOT NULL,
        account TEXT NOT NULL,
        trade INTEGER NOT NULL CHECK (trade IN (0, 1)),
        exempt INTEGER NOT NULL CHECK (exempt IN (0, 1)),
        micros INTEGER NOT NULL CHECK (micros >= 0),
        reserved_at INTEGER NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('open', 'unclear', 'done', 'reverted', 'not_sent', 'withdrawn')),
        settled_at INTEGER,
        settled_micros INTEGER CHECK (settled_micros >= 0)
    ) STRICT;
    CREATE INDEX ledger_reservation_held ON ledger_reservation (state, micros) WHERE state IN ('open', 'unclear');
    CREATE INDEX ledger_reservation_trades ON ledger_reservation (reserved_at)
        WHERE trade = 1 AND state NOT IN ('not_sent', 'withdrawn');

    CREATE TABLE ledger_reservation_token (
        reservation INTEGER NOT NULL REFERENCES ledger_reservation (id),
        chain_id INTEGER NOT NULL,
        token TEXT NOT NULL,
        micros INTEGER NOT NULL CHECK (micros >= 0),
        held INTEGER NOT NULL CHECK (held IN (0, 1)),
        PRIMARY KEY (reservation, chain_id, token)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX ledger_reservation_token_held ON ledger_reservation_token (chain_id, token, micros) WHERE held = 1;

    CREATE TABLE ledger_spent (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        at INTEGER NOT NULL,
        reservation INTEGER NOT NULL UNIQUE REFERENCES ledger_reservation (id),
        total INTEGER NOT NULL CHECK (total >= 0)
    ) STRICT;
    CREATE INDEX ledger_spent_at ON ledger_spent (at, seq, total);

    CREATE TABLE ledger_token_spent (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        chain_id INTEGER NOT NULL,
        token TEXT NOT NULL,
        at INTEGER NOT NULL,
        total INTEGER NOT NULL CHECK (total >= 0)
    ) STRICT;
    CREATE INDEX ledger_token_spent_at ON ledger_token_spent (chain_id, token, at, seq, total);

    CREATE TABLE ledger_recipient (
        chain_id INTEGER NOT NULL,
        recipient TEXT NOT NULL,
        reservation INTEGER NOT NULL REFERENCES ledger_reservation (id),
        PRIMARY KEY (chain_id, recipient, reservation)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE ledger_call (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        at INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX ledger_call_at ON ledger_call (at);

    CREATE TABLE ledger_breaker (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        failures INTEGER NOT NULL CHECK (failures >= 0),
        opened_at INTEGER,
        trial INTEGER REFERENCES ledger_reservation (id)
    ) STRICT;

    CREATE TABLE ledger_high_water (
        chain_id INTEGER NOT NULL,
        account TEXT NOT NULL,
        micros INTEGER NOT NULL CHECK (micros >= 0),
        at INTEGER NOT NULL,
        PRIMARY KEY (chain_id, account)
    ) STRICT, WITHOUT ROWID;
";

const LIQUIDATIONS: &str = "
    CREATE TABLE ledger_liquidation (
        chain_id INTEGER NOT NULL,
        account TEXT NOT NULL,
        token TEXT NOT NULL,
        planned_at INTEGER NOT NULL,
        PRIMARY KEY (chain_id, account, token)
    ) STRICT, WITHOUT ROWID;
";
