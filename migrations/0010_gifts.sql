-- Gifts: a list of credits that an operator sees before it is made, that may wait for a second person, and that a server
-- makes piece by piece.

CREATE TABLE gifts (
    app_id       text        NOT NULL,
    gift         text        NOT NULL,
    line_count   integer     NOT NULL,
    free         bigint      NOT NULL,
    charge       bigint      NOT NULL,
    replayed     integer     NOT NULL,
    create_wallets boolean   NOT NULL,
    reason       text        NOT NULL,
    made_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_by   text,
    asked_by     text,
    started_at   timestamptz,
    done_through integer     NOT NULL DEFAULT 0,
    ended_at     timestamptz,
    CONSTRAINT gifts_pkey PRIMARY KEY (app_id, gift),
    CONSTRAINT gifts_started_by_somebody CHECK ((started_by IS NULL) = (started_at IS NULL)),
    CONSTRAINT gifts_ended_after_start CHECK (ended_at IS NULL OR started_at IS NOT NULL)
);
COMMENT ON TABLE gifts IS 'Lists of credits that users of the console give (contract 8.3.14). The lines are in gift_lines. A gift that nobody started goes after a day, and one that has ended after 30 days.';
COMMENT ON COLUMN gifts.app_id IS 'The app.';
COMMENT ON COLUMN gifts.gift IS 'Its name: gift- and a digest of the lines, of create_wallets and of the reason. So the same list is the same gift.';
COMMENT ON COLUMN gifts.line_count IS 'How many lines it has.';
COMMENT ON COLUMN gifts.free IS 'Gifted currency that it adds in all, without lines that were credited before it was made.';
COMMENT ON COLUMN gifts.charge IS 'Charged currency, likewise.';
COMMENT ON COLUMN gifts.replayed IS 'How many lines were credited before it was made.';
COMMENT ON COLUMN gifts.create_wallets IS 'Whether it makes players known whom the app does not know.';
COMMENT ON COLUMN gifts.reason IS 'Note of each credit.';
COMMENT ON COLUMN gifts.made_at IS 'When the list came last.';
COMMENT ON COLUMN gifts.started_by IS 'User of the console who started it, or confirmed it. Null: nobody yet.';
COMMENT ON COLUMN gifts.asked_by IS 'User who asked for it, where a second person confirmed it.';
COMMENT ON COLUMN gifts.started_at IS 'When it was started.';
COMMENT ON COLUMN gifts.done_through IS 'Number of the last line that was carried out. It changes in the transaction of the credits.';
COMMENT ON COLUMN gifts.ended_at IS 'When its last line was carried out.';
CREATE INDEX gifts_under_way ON gifts (started_at) WHERE started_at IS NOT NULL AND ended_at IS NULL;

CREATE TABLE gift_lines (
    app_id  text    NOT NULL,
    gift    text    NOT NULL,
    line    integer NOT NULL,
    open_id text    NOT NULL,
    free    bigint  NOT NULL,
    charge  bigint  NOT NULL,
    ref     text    NOT NULL,
    makes_known boolean NOT NULL,
    outcome text,
    CONSTRAINT gift_lines_pkey PRIMARY KEY (app_id, gift, line),
    CONSTRAINT gift_lines_gift_fkey FOREIGN KEY (app_id, gift) REFERENCES gifts ON DELETE CASCADE
);
COMMENT ON TABLE gift_lines IS 'Credits of gifts. The erasure of a player removes their lines.';
COMMENT ON COLUMN gift_lines.app_id IS 'The app.';
COMMENT ON COLUMN gift_lines.gift IS 'The gift.';
COMMENT ON COLUMN gift_lines.line IS 'Number of the credit in its list, from 1.';
COMMENT ON COLUMN gift_lines.open_id IS 'The player.';
COMMENT ON COLUMN gift_lines.free IS 'Gifted currency to add.';
COMMENT ON COLUMN gift_lines.charge IS 'Charged currency to add.';
COMMENT ON COLUMN gift_lines.ref IS 'The ref of the credit.';
COMMENT ON COLUMN gift_lines.makes_known IS 'Whether the app did not know the player when the list came.';
COMMENT ON COLUMN gift_lines.outcome IS 'replayed, ref_used, unknown_player or balance_too_large. Null: it was credited, or its turn has not come.';

-- A start counts as what its user has moved (contract 8.6.40).
DROP INDEX operator_log_moves;
CREATE INDEX operator_log_moves ON operator_log (operator_kind, operator, at)
    WHERE action IN ('wallet.credit', 'wallet.credits', 'wallet.debit', 'wallet.cancel', 'topup.settle', 'gift.start');

ALTER TABLE console_requests
    DROP CONSTRAINT console_requests_kind_known,
    ADD CONSTRAINT console_requests_kind_known CHECK (kind IN (
        'credit', 'debit', 'cancel', 'gift', 'add_user', 'set_rights', 'reset_second_factor', 'create_key')),
    DROP CONSTRAINT console_requests_account_named,
    ADD CONSTRAINT console_requests_account_named CHECK (
        (kind IN ('credit', 'debit', 'cancel', 'gift')) = (account IS NULL) AND (app_id = '') = (account IS NOT NULL));
COMMENT ON COLUMN console_requests.kind IS 'credit, debit or cancel, as in the ledger; gift; or add_user, set_rights, reset_second_factor, or create_key.';
COMMENT ON COLUMN console_requests.open_id IS 'The player. Empty for a gift, and for a change of a user or an API key.';
