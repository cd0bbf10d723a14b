CREATE TABLE store_migrations (room TEXT NOT NULL, version INTEGER NOT NULL, digest BLOB NOT NULL, PRIMARY KEY (room, version)) STRICT;
CREATE TABLE runtime_ledger (id TEXT NOT NULL PRIMARY KEY) STRICT;
    CREATE TABLE runtime_genesis (
        chain_id INTEGER NOT NULL PRIMARY KEY,
        hash BLOB NOT NULL
    ) STRICT;
INSERT INTO store_migrations VALUES ('runtime', 1, x'c0ca7208c4755d3c5192a46e5180cb47a75e016d0bdbb40c73bd0fd0fadcfc19');
CREATE TABLE engine_idempotency (
        golem_id TEXT NOT NULL,
        key TEXT NOT NULL,
        tool TEXT NOT NULL,
        params_hash BLOB NOT NULL,
        call_id TEXT NOT NULL,
        started_at INTEGER NOT NULL,
        response TEXT,
        PRIMARY KEY (golem_id, key)
    ) STRICT;
    CREATE INDEX engine_idempotency_started ON engine_idempotency (started_at);
INSERT INTO store_migrations VALUES ('engine', 1, x'd97708fcb619f7396d5cea93f6f169c67fb688da508d90fec4acbb09e779dcfb');
ALTER TABLE engine_idempotency ADD COLUMN acting INTEGER NOT NULL DEFAULT 0;
INSERT INTO store_migrations VALUES ('engine', 2, x'0ee1ac6d27db14fc29b8729ab47c8792366e9702fcac1b696b369335816c5b61');
ALTER TABLE engine_idempotency ADD COLUMN session TEXT;
INSERT INTO store_migrations VALUES ('engine', 3, x'0c27c1335cda9b4d9cc01684faaf82a98deb79265aba59d7801594a1e73afd35');
CREATE TABLE engine_agent_state (
        golem_id TEXT NOT NULL,
        network TEXT NOT NULL,
        name TEXT NOT NULL,
        version INTEGER NOT NULL,
        saved_at INTEGER NOT NULL,
        state TEXT NOT NULL,
        checksum BLOB NOT NULL CHECK (length(checksum) = 32),
        PRIMARY KEY (golem_id, network, name)
    ) STRICT;
INSERT INTO store_migrations VALUES ('engine', 4, x'0149e4722d54b8f1a5b3880011d78535ac5b7c4eb947751347206039a7bf639f');
CREATE TABLE engine_schedule (
        id TEXT PRIMARY KEY,
        golem_id TEXT NOT NULL,
        network TEXT NOT NULL,
        account BLOB NOT NULL CHECK (length(account) = 20),
        state TEXT NOT NULL,
        next_at INTEGER NOT NULL,
        terms TEXT NOT NULL,
        progress TEXT NOT NULL
    ) STRICT;
    CREATE INDEX engine_schedule_due ON engine_schedule (network, state, next_at);
INSERT INTO store_migrations VALUES ('engine', 5, x'904ff774779e4c6f2e5c1c6e019dca8fcf951555110de8cda3c2f4f3b0b5805d');
CREATE TABLE sender_lane (
    chain_id INTEGER NOT NULL,
    account BLOB NOT NULL,
    next_nonce INTEGER NOT NULL,
    PRIMARY KEY (chain_id, account)
) STRICT, WITHOUT ROWID;
CREATE TABLE sender_nonce (
    ticket INTEGER PRIMARY KEY AUTOINCREMENT,
    chain_id INTEGER NOT NULL,
    account BLOB NOT NULL,
    nonce INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('reserved', 'free', 'signed')),
    reserved_at INTEGER NOT NULL,
    UNIQUE (chain_id, account, nonce)
) STRICT;
INSERT INTO store_migrations VALUES ('sender', 1, x'c5b0e739df53fc630e2bbf1230ae667896d1cfd08b8d770a236d17356577c3da');
CREATE TABLE sender_transaction (
    hash BLOB PRIMARY KEY,
    chain_id INTEGER NOT NULL,
    account BLOB NOT NULL,
    nonce INTEGER NOT NULL,
    raw BLOB NOT NULL,
    route TEXT NOT NULL CHECK (route IN ('public', 'private')),
    call_id TEXT,
    replaces BLOB REFERENCES sender_transaction (hash),
    state TEXT NOT NULL,
    stored_at INTEGER NOT NULL,
    sends INTEGER NOT NULL DEFAULT 0,
    block_number INTEGER,
    block_hash BLOB,
    note TEXT,
    settled_at INTEGER
) STRICT;
CREATE INDEX sender_transaction_nonce ON sender_transaction (chain_id, account, nonce);
CREATE INDEX sender_transaction_open ON sender_transaction (chain_id, account) WHERE settled_at IS NULL;
INSERT INTO store_migrations VALUES ('sender', 2, x'6473699d734d23380dbde468eb7847f0f85f3457f064d10afc7861d458e033a3');
ALTER TABLE sender_nonce ADD COLUMN session TEXT;
INSERT INTO store_migrations VALUES ('sender', 3, x'ed4a41b6eb33196ed63375fe41bf7cee89d559f2a4756e4ba35f777ac1b7ade0');
ALTER TABLE sender_transaction ADD COLUMN late INTEGER NOT NULL DEFAULT 0;
CREATE INDEX sender_transaction_late ON sender_transaction (hash) WHERE late = 1;
CREATE INDEX sender_transaction_dropped ON sender_transaction (chain_id) WHERE state = 'dropped';
INSERT INTO store_migrations VALUES ('sender', 4, x'a2bd42e3930bbf2e82a83c0d911cc445d4ea58ea6c9029a9f591168782c72157');
ALTER TABLE sender_transaction ADD COLUMN missing_since INTEGER;
INSERT INTO store_migrations VALUES ('sender', 5, x'0dc3ba1fee51fe5f61b5213233dbb5ed9d4a3b518ea5fd240fad5442cfda655b');
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
INSERT INTO store_migrations VALUES ('ledger', 1, x'f8c531ebf61f30e518051eed320dd10a0c2bfee05a8cee3dfc6b7104e791db24');
CREATE TABLE ledger_liquidation (
        chain_id INTEGER NOT NULL,
        account TEXT NOT NULL,
        token TEXT NOT NULL,
        planned_at INTEGER NOT NULL,
        PRIMARY KEY (chain_id, account, token)
    ) STRICT, WITHOUT ROWID;
INSERT INTO store_migrations VALUES ('ledger', 2, x'4cb541a2c2137ae0c9b4d2ab31f77675f16b925e418030198e74882c5f8eb110');
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
INSERT INTO store_migrations VALUES ('ledger', 3, x'b3f0b2e860ebb36027534bb59e3821912c0cdf43ec91b2c2981d2621af6e570b');
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
INSERT INTO store_migrations VALUES ('ledger', 4, x'90360c08759e5ce9fa2050fbe17d51788655d7ba181e4da8702ccb12dd1d9d86');
ALTER TABLE ledger_reservation ADD COLUMN traded INTEGER NOT NULL DEFAULT 0 CHECK (traded >= 0);
    ALTER TABLE ledger_breaker ADD COLUMN largest INTEGER NOT NULL DEFAULT 0 CHECK (largest >= 0);
    CREATE INDEX ledger_reservation_revocations ON ledger_reservation (account, reserved_at)
        WHERE trade = 0 AND state NOT IN ('not_sent', 'withdrawn');
INSERT INTO store_migrations VALUES ('ledger', 5, x'9404065d3bb632146c43052d8e7bbdab6d56a229afad47aff8447e1084f84a36');
CREATE TABLE ledger_mark_rise (
        chain_id INTEGER NOT NULL,
        account TEXT NOT NULL,
        micros INTEGER NOT NULL CHECK (micros >= 0),
        since INTEGER NOT NULL,
        readings INTEGER NOT NULL CHECK (readings > 0),
        PRIMARY KEY (chain_id, account)
    ) STRICT, WITHOUT ROWID;
INSERT INTO store_migrations VALUES ('ledger', 6, x'1c7f618442e91a189b7df12d7e68d2fa4e2e34f99cfef4bf9c523f0cc9aeb070');
ALTER TABLE ledger_call ADD COLUMN golem_id TEXT NOT NULL DEFAULT '';
    CREATE INDEX ledger_call_caller ON ledger_call (golem_id, at);
INSERT INTO store_migrations VALUES ('ledger', 7, x'7c94f89da1dfd673b00f82540873eb8f96bc5120eb247d45c26e039b09378314');
CREATE TABLE accounting_entry (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        chain_id INTEGER NOT NULL,
        account TEXT NOT NULL,
        block INTEGER NOT NULL,
        block_hash BLOB NOT NULL,
        position INTEGER NOT NULL,
        at INTEGER NOT NULL,
        tx BLOB,
        origin TEXT NOT NULL CHECK (origin IN ('opening', 'transaction', 'order', 'bridge', 'outside')),
        call_id TEXT,
        golem_id TEXT,
        gas TEXT NOT NULL,
        UNIQUE (chain_id, account, block, position)
    ) STRICT;

    CREATE TABLE accounting_flow (
        entry INTEGER NOT NULL REFERENCES accounting_entry (id) ON DELETE CASCADE,
        token TEXT NOT NULL,
        received TEXT NOT NULL,
        given TEXT NOT NULL,
        PRIMARY KEY (entry, token)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE accounting_block (
        chain_id INTEGER NOT NULL,
        account TEXT NOT NULL,
        block INTEGER NOT NULL,
        block_hash BLOB NOT NULL,
        PRIMARY KEY (chain_id, account, block)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE accounting_token (
        chain_id INTEGER NOT NULL,
        token TEXT NOT NULL,
        symbol TEXT NOT NULL,
        decimals INTEGER NOT NULL,
        is_dollar INTEGER NOT NULL CHECK (is_dollar IN (0, 1)),
        wraps_native INTEGER NOT NULL CHECK (wraps_native IN (0, 1)),
        PRIMARY KEY (chain_id, token)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE accounting_price (
        chain_id INTEGER NOT NULL,
        token TEXT NOT NULL,
        at INTEGER NOT NULL,
        call_id TEXT NOT NULL,
        usd TEXT NOT NULL,
        PRIMARY KEY (chain_id, token, at, call_id)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE accounting_action (
        call_id TEXT PRIMARY KEY,
        golem_id TEXT NOT NULL,
        tool TEXT NOT NULL,
        at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
INSERT INTO store_migrations VALUES ('accounting', 1, x'238f00550f574f8ef0e7842b8eecab7822a34c91ea762441543b07a06dedcd70');
CREATE TABLE accounting_entry_new (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        chain_id INTEGER NOT NULL,
        account TEXT NOT NULL,
        block INTEGER NOT NULL,
        block_hash BLOB NOT NULL,
        position INTEGER NOT NULL,
        at INTEGER NOT NULL,
        tx BLOB,
        origin TEXT NOT NULL
            CHECK (origin IN ('opening', 'transaction', 'order', 'bridge', 'outside', 'unexplained')),
        call_id TEXT,
        golem_id TEXT,
        gas TEXT NOT NULL,
        note TEXT,
        UNIQUE (chain_id, account, block, position)
    ) STRICT;
    INSERT INTO accounting_entry_new SELECT *, NULL FROM accounting_entry;
    CREATE TABLE accounting_flow_new (
        entry INTEGER NOT NULL REFERENCES accounting_entry_new (id) ON DELETE CASCADE,
        token TEXT NOT NULL,
        received TEXT NOT NULL,
        given TEXT NOT NULL,
        PRIMARY KEY (entry, token)
    ) STRICT, WITHOUT ROWID;
    INSERT INTO accounting_flow_new SELECT * FROM accounting_flow;
    DROP TABLE accounting_flow;
    DROP TABLE accounting_entry;
    ALTER TABLE accounting_entry_new RENAME TO accounting_entry;
    ALTER TABLE accounting_flow_new RENAME TO accounting_flow;
    CREATE INDEX accounting_entry_time ON accounting_entry (chain_id, at);

    ALTER TABLE accounting_token ADD COLUMN listed INTEGER NOT NULL DEFAULT 0 CHECK (listed IN (0, 1));
    UPDATE accounting_token SET listed = 1 WHERE token = 'native' OR is_dollar = 1 OR wraps_native = 1;

    CREATE TABLE accounting_traded (
        chain_id INTEGER NOT NULL,
        token TEXT NOT NULL,
        PRIMARY KEY (chain_id, token)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE accounting_fault (
        chain_id INTEGER NOT NULL,
        account TEXT NOT NULL,
        token TEXT NOT NULL,
        block INTEGER NOT NULL,
        fault TEXT NOT NULL,
        PRIMARY KEY (chain_id, account, token)
    ) STRICT, WITHOUT ROWID;
INSERT INTO store_migrations VALUES ('accounting', 2, x'140874ebc2332c695c1dc9b72ea5c3e0277ad67775aaefbf68b5590a934c6144');
CREATE TABLE audit_entry (
        seq INTEGER PRIMARY KEY,
        at INTEGER NOT NULL,
        kind TEXT NOT NULL,
        call_id TEXT,
        golem_id TEXT NOT NULL,
        body TEXT NOT NULL,
        previous BLOB NOT NULL CHECK (length(previous) = 32),
        hash BLOB NOT NULL CHECK (length(hash) = 32)
    ) STRICT;
    CREATE INDEX audit_entry_call ON audit_entry (call_id, seq);
INSERT INTO store_migrations VALUES ('audit', 1, x'131a7e9e4a9c19f427c302eb3e176269f3e7c290056b0f3333c32a2e754913e9');
CREATE TABLE safety_permit (
        permit_id TEXT PRIMARY KEY,
        simulation_hash BLOB NOT NULL,
        call_id TEXT NOT NULL,
        chain_id INTEGER NOT NULL,
        account TEXT NOT NULL,
        reservation INTEGER NOT NULL,
        gas_usd TEXT NOT NULL,
        spent_usd TEXT NOT NULL,
        consumed_at INTEGER NOT NULL,
        ended TEXT CHECK (ended IN ('done', 'reverted', 'not_sent', 'withdrawn'))
    ) STRICT;
    CREATE INDEX safety_permit_open ON safety_permit (chain_id) WHERE ended IS NULL;

    CREATE TABLE safety_leg (
        permit_id TEXT NOT NULL REFERENCES safety_permit (permit_id),
        leg INTEGER NOT NULL,
        of INTEGER NOT NULL,
        hash BLOB NOT NULL UNIQUE,
        PRIMARY KEY (permit_id, leg)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE safety_recipient (
        chain_id INTEGER NOT NULL,
        address TEXT NOT NULL,
        first_at INTEGER NOT NULL,
        PRIMARY KEY (chain_id, address)
    ) STRICT, WITHOUT ROWID;
INSERT INTO store_migrations VALUES ('safety', 1, x'6bb5a088bc0b4fe25419e504b09a7583697eae4f6f1d784af551b0a96bd73b33');
CREATE TABLE safety_order (
        hash BLOB PRIMARY KEY,
        permit_id TEXT NOT NULL UNIQUE,
        call_id TEXT NOT NULL,
        golem_id TEXT NOT NULL,
        kind TEXT NOT NULL,
        chain_id INTEGER NOT NULL,
        account TEXT NOT NULL,
        permit2 TEXT NOT NULL,
        token_in TEXT NOT NULL,
        token_out TEXT NOT NULL,
        destination INTEGER,
        encoded BLOB NOT NULL,
        signature BLOB,
        stage TEXT NOT NULL
            CHECK (stage IN ('reserved', 'signed', 'submitting', 'submitted', 'refused', 'ended')),
        status TEXT NOT NULL,
        facts TEXT NOT NULL,
        card TEXT,
        reservation INTEGER NOT NULL,
        spent_usd TEXT NOT NULL,
        gas_usd TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        changed_at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX safety_order_live ON safety_order (chain_id, account) WHERE stage <> 'ended';
INSERT INTO store_migrations VALUES ('safety', 2, x'cbfe979b025d8fcc4277fae387ac119c1a98edd4d1bb5a795c24ffb10cdfc9f6');
ALTER TABLE safety_permit ADD COLUMN golem_id TEXT;
    ALTER TABLE safety_permit ADD COLUMN session TEXT;
    CREATE INDEX safety_permit_call ON safety_permit (call_id);
    ALTER TABLE safety_leg ADD COLUMN main INTEGER NOT NULL DEFAULT 1;
INSERT INTO store_migrations VALUES ('safety', 3, x'6a5314aeb230e3bf7b5e2600189f3c53f141cc8729a6c443a14b982c077caedb');
ALTER TABLE safety_order ADD COLUMN signed_at INTEGER;
    ALTER TABLE safety_order ADD COLUMN shown INTEGER NOT NULL DEFAULT 1;
INSERT INTO store_migrations VALUES ('safety', 4, x'3531449c353889f935007a2d987a0d092e84552dd2d8c41c04645b2770172a9c');
CREATE TABLE safety_allowed (
        chain_id INTEGER NOT NULL,
        account TEXT NOT NULL,
        token TEXT NOT NULL,
        PRIMARY KEY (chain_id, account, token)
    ) STRICT, WITHOUT ROWID;
INSERT INTO store_migrations VALUES ('safety', 5, x'5f44bd8bde79df13cabffacfd80348a6aad170dd307a1e43fa8ea26b0e8c1275');
ALTER TABLE safety_leg ADD COLUMN takes_back INTEGER NOT NULL DEFAULT 0;
INSERT INTO store_migrations VALUES ('safety', 6, x'88bf06b6fe1d0ac4e50f20d4c6ac2b07f6951650d9252f1e4a05a50168db5ab8');
CREATE TABLE safety_spender (
        chain_id INTEGER NOT NULL,
        address TEXT NOT NULL,
        first_at INTEGER NOT NULL,
        PRIMARY KEY (chain_id, address)
    ) STRICT, WITHOUT ROWID;
INSERT INTO store_migrations VALUES ('safety', 7, x'd206783bf688ee9c41ec3e992ffa07641ffd75e3188d84b13e015f9fdeccfd32');
CREATE TABLE safety_party (
        role TEXT NOT NULL CHECK (role IN ('receiver', 'spender', 'token')),
        chain_id INTEGER NOT NULL,
        address TEXT NOT NULL,
        account TEXT NOT NULL,
        call_id TEXT NOT NULL,
        first_at INTEGER NOT NULL,
        tag BLOB NOT NULL,
        PRIMARY KEY (role, chain_id, address, account)
    ) STRICT, WITHOUT ROWID;
INSERT INTO store_migrations VALUES ('safety', 8, x'7402fa0f77b249bcbb3fac962b14c602b56d4ab4400f560b0be208bce5599561');
CREATE TABLE safety_session_key (
        id TEXT PRIMARY KEY,
        label TEXT NOT NULL,
        address BLOB NOT NULL,
        owner BLOB NOT NULL,
        chain_id INTEGER NOT NULL,
        manager BLOB NOT NULL,
        delegation BLOB NOT NULL,
        signature BLOB,
        created_at INTEGER NOT NULL,
        expires_at INTEGER NOT NULL,
        max_calls INTEGER,
        uses INTEGER NOT NULL,
        last_used INTEGER,
        state TEXT NOT NULL CHECK (state IN ('drafted', 'granted', 'revoked')),
        revoked_at INTEGER,
        revoked_by TEXT,
        reason TEXT,
        tag BLOB,
        CHECK ((state = 'granted') = (signature IS NOT NULL)),
        CHECK ((state = 'revoked') = (tag IS NULL)),
        CHECK ((state = 'revoked') = (revoked_at IS NOT NULL))
    ) STRICT, WITHOUT ROWID;
INSERT INTO store_migrations VALUES ('safety', 9, x'7c65b5ec2307c5b0f748c82a6b07702b973873a64928717cb4779ce122ba8223');
CREATE TABLE safe_proposal (
        id BLOB PRIMARY KEY,
        chain_id INTEGER NOT NULL,
        safe TEXT NOT NULL,
        nonce TEXT NOT NULL,
        threshold TEXT NOT NULL,
        proposal TEXT NOT NULL,
        signatures TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('waiting', 'executing', 'rejected', 'executed', 'partly', 'superseded',
            'withdrawn')),
        shown INTEGER NOT NULL CHECK (shown IN (0, 1)),
        reservation INTEGER NOT NULL,
        spent_usd TEXT NOT NULL,
        from_block INTEGER NOT NULL,
        call_id TEXT NOT NULL,
        golem_id TEXT NOT NULL,
        tx BLOB,
        created_at INTEGER NOT NULL,
        ended_at INTEGER
    ) STRICT;
    CREATE UNIQUE INDEX safe_proposal_waiting ON safe_proposal (chain_id, safe) WHERE state IN ('waiting', 'executing');
INSERT INTO store_migrations VALUES ('safety', 10, x'7b2eca3fa480a67d180b788b60a1585b7afb27fc06a7ba2894031f5ec2c339ee');
CREATE TABLE policy_held (
        one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
        hash BLOB NOT NULL CHECK (length(hash) = 32),
        sources TEXT NOT NULL,
        at INTEGER NOT NULL
    ) STRICT;
INSERT INTO store_migrations VALUES ('policy', 1, x'702032103c0b8a45c87de7779fc265ef3c4de1d2a08173aac24fe272adbb9911');
CREATE TABLE golem_episode (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        golem_id TEXT NOT NULL,
        at INTEGER NOT NULL,
        call_id TEXT NOT NULL,
        kind TEXT NOT NULL,
        chain TEXT NOT NULL,
        token_in TEXT NOT NULL,
        token_out TEXT NOT NULL,
        cents INTEGER NOT NULL,
        phase TEXT NOT NULL,
        outcome TEXT NOT NULL CHECK (outcome IN ('done', 'open', 'lapsed', 'blocked', 'refused', 'failed')),
        code TEXT,
        allowed_bps INTEGER,
        slipped_bps INTEGER,
        expected TEXT NOT NULL,
        actual TEXT NOT NULL,
        difference TEXT NOT NULL,
        lesson TEXT NOT NULL
    ) STRICT;
    CREATE INDEX golem_episode_alike ON golem_episode (golem_id, kind, chain, token_in, token_out, id);

    CREATE TABLE golem_note (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        golem_id TEXT NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('insight', 'heuristic')),
        topic TEXT NOT NULL,
        at INTEGER NOT NULL,
        text TEXT NOT NULL,
        UNIQUE (golem_id, kind, topic)
    ) STRICT;

    CREATE VIRTUAL TABLE golem_words USING fts5 (golem_id UNINDEXED, kind UNINDEXED, ref UNINDEXED, text);

    CREATE TABLE golem_delta (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        golem_id TEXT NOT NULL,
        at INTEGER NOT NULL,
        section TEXT NOT NULL,
        before TEXT,
        after TEXT NOT NULL,
        reason TEXT NOT NULL,
        undone_at INTEGER
    ) STRICT;

    CREATE TABLE golem_life (
        golem_id TEXT PRIMARY KEY,
        born_at INTEGER NOT NULL,
        high_water TEXT,
        died_at INTEGER,
        last_words TEXT
    ) STRICT;
INSERT INTO store_migrations VALUES ('golem', 1, x'0733219a2da64485cfd4760b7ec02a566c907fba1832e4ff21ea202bc7342d49');
ALTER TABLE golem_life ADD COLUMN wound_up_at INTEGER;
INSERT INTO store_migrations VALUES ('golem', 2, x'd787406d5875ab7ae33285a2ff8ba3294b1e72e07bd72d7f40287408a0d2214a');
CREATE INDEX golem_episode_open ON golem_episode (golem_id) WHERE outcome = 'open';
INSERT INTO store_migrations VALUES ('golem', 3, x'9309318c5f3a116ac0ce6c72c40873a83dd3cea1b1a4b400f86b53265d2fe99c');
ALTER TABLE golem_delta ADD COLUMN network TEXT NOT NULL DEFAULT '';
INSERT INTO store_migrations VALUES ('golem', 4, x'041265c1cefb39902bae1fd1927b7d26ae299c44d4dd552ca52503eb60e6f7a7');
ALTER TABLE golem_words RENAME TO golem_words_unscoped;
    CREATE VIRTUAL TABLE golem_words USING fts5 (scope, text, kind UNINDEXED, ref UNINDEXED);
    INSERT INTO golem_words (rowid, scope, text, kind, ref)
        SELECT rowid, 'g' || hex(golem_id) || ' k' || kind, text, kind, ref FROM golem_words_unscoped;
    DROP TABLE golem_words_unscoped;
INSERT INTO store_migrations VALUES ('golem', 5, x'57e19add970bc56ff371b8dab66e929be43bc338b4675781e966c152b4eb0b2f');
CREATE TABLE shared_question (
    permit_id TEXT PRIMARY KEY,
    session TEXT NOT NULL,
    question TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE shared_answer (
    permit_id TEXT PRIMARY KEY REFERENCES shared_question (permit_id) ON DELETE CASCADE,
    answer TEXT NOT NULL,
    said_by TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO store_migrations VALUES ('questions', 1, x'32e0b14e9258b6b062af0d4349ccbcce8138c7c2ac6995eb048f79bc474a2e62');
CREATE TABLE shared_leader (
    session TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
INSERT INTO store_migrations VALUES ('questions', 2, x'1cfa3315cf44b78466a9a98c6eb5b88007f088c23e7f66f8285812e1aa3aa631');
ALTER TABLE shared_question ADD COLUMN account TEXT;
ALTER TABLE shared_question ADD COLUMN tag BLOB;
ALTER TABLE shared_answer ADD COLUMN tag BLOB;
ALTER TABLE shared_answer ADD COLUMN entry INTEGER;
INSERT INTO store_migrations VALUES ('questions', 3, x'a9b51a2462df06f19b4675f642b4792bef8b07c5e6f5a68a12837ecdb4244b0f');
CREATE TABLE shared_console (
    session TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
INSERT INTO store_migrations VALUES ('questions', 4, x'af2866e5fdb0f1f0747ee2d81929ca060fc67453c38431e365e4cc37aaf30df3');
CREATE TABLE shared_second (
    permit_id TEXT NOT NULL REFERENCES shared_question (permit_id) ON DELETE CASCADE,
    signature TEXT NOT NULL,
    PRIMARY KEY (permit_id, signature)
) STRICT, WITHOUT ROWID;
INSERT INTO store_migrations VALUES ('questions', 5, x'b688d0b8616a92144d45cc7aafb0735c6784bee28f86eb366ae6c82ca7a7e68b');
INSERT INTO runtime_ledger VALUES ('real-fixture');
INSERT INTO runtime_genesis VALUES (11155111, x'25a5cc106eea7138acab33231d7160d69cb777ee0c2c553fcddf5138993e6dd9');
INSERT INTO ledger_clock VALUES (1, 1700000000000);
