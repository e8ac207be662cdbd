-- Top-ups: prices, orders, and payments that providers tell of.

-- Whoever reads the tables for long would make all payments wait behind these statements.
SELECT set_config('lock_timeout', '5s', true);

-- Former rows were held to the narrower rules, so nothing reads them again.
ALTER TABLE ledger_entries DROP CONSTRAINT ledger_entries_kind_known;
ALTER TABLE ledger_entries ADD CONSTRAINT ledger_entries_kind_known CHECK (
    kind IN ('exchange', 'present', 'cancel', 'closed', 'credit', 'debit', 'topup_order', 'topup')) NOT VALID;
ALTER TABLE ledger_entries DROP CONSTRAINT ledger_entries_closed_is_no_entry;
ALTER TABLE ledger_entries ADD CONSTRAINT ledger_entries_closed_is_no_entry CHECK (
    (kind IN ('closed', 'topup_order')) = (seq IS NULL) AND (seq IS NULL) = (chain_hash IS NULL)) NOT VALID;
COMMENT ON COLUMN ledger_entries.seq IS '1 for the first entry of a wallet. Each later entry adds one. Null for a closed biz_no and for an order of a top-up, which are no ledger entries.';
COMMENT ON COLUMN ledger_entries.kind IS 'exchange, present, cancel, closed, credit, debit, topup_order or topup.';
COMMENT ON COLUMN ledger_entries.reference IS 'The biz_no of a game. Of an operator''s entry: an exclamation mark and the ref. Of a top-up: a dollar sign, the provider, a slash and the provider''s id. So the namespaces never meet.';
COMMENT ON COLUMN ledger_entries.item_id IS 'What was bought, or product and figures of an order of a top-up: a row of items. Null for other kinds.';
COMMENT ON COLUMN ledger_entries.remark IS 'Remark of a present or a cancel, as sent, or note of the operator. Of an order of a top-up: the product and, behind a blank, the remark. Null for an exchange and for a top-up.';
COMMENT ON TABLE items IS 'The texts that say what an exchange bought, or which product and figures an order of a top-up has. Most are like others before, so each text is stored once. A row is never updated but by the erasure of a player, and never deleted.';
COMMENT ON COLUMN items.product_name IS 'Name of the item, as sent, or product of an order of a top-up.';
COMMENT ON COLUMN items.product_info IS 'JSON text of the items, as sent, or of the figures of an order of a top-up.';

ALTER TABLE archived_entries DROP CONSTRAINT archived_entries_kind_known;
ALTER TABLE archived_entries ADD CONSTRAINT archived_entries_kind_known CHECK (
    kind IN ('exchange', 'present', 'cancel', 'closed', 'credit', 'debit', 'topup_order', 'topup')) NOT VALID;
ALTER TABLE archived_entries DROP CONSTRAINT archived_entries_closed_is_no_entry;
ALTER TABLE archived_entries ADD CONSTRAINT archived_entries_closed_is_no_entry CHECK (
    (kind IN ('closed', 'topup_order')) = (seq IS NULL)) NOT VALID;

CREATE TABLE topup_price_lists (
    app_no     integer     NOT NULL,
    version    integer     NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT topup_price_lists_pkey PRIMARY KEY (app_no, version),
    CONSTRAINT topup_price_lists_version_positive CHECK (version >= 1)
);
COMMENT ON TABLE topup_price_lists IS 'Lists of prices of each app (contract 19.1). The newest counts. A row is never updated and never deleted.';
COMMENT ON COLUMN topup_price_lists.app_no IS 'The app.';
COMMENT ON COLUMN topup_price_lists.version IS '1 for the first list of the app. Each later list adds one.';
COMMENT ON COLUMN topup_price_lists.created_at IS 'Database time.';

CREATE TABLE topup_prices (
    amount     bigint  NOT NULL,
    charge     bigint  NOT NULL,
    bonus      bigint  NOT NULL,
    app_no     integer NOT NULL,
    version    integer NOT NULL,
    active     boolean NOT NULL,
    product_id text    COLLATE "C" NOT NULL,
    currency   text    NOT NULL,
    name       text    NOT NULL,
    CONSTRAINT topup_prices_pkey PRIMARY KEY (app_no, version, product_id),
    CONSTRAINT topup_prices_amount_positive CHECK (amount >= 1),
    CONSTRAINT topup_prices_brings_coins CHECK (charge >= 0 AND bonus >= 0 AND charge + bonus >= 1),
    CONSTRAINT topup_prices_currency_code CHECK (currency ~ '^[A-Z]{3}$')
);
COMMENT ON TABLE topup_prices IS 'The products of each list. A row is never updated and never deleted: the audit compares payments with it.';
COMMENT ON COLUMN topup_prices.amount IS 'Money in minor units of the currency.';
COMMENT ON COLUMN topup_prices.charge IS 'Charged coins that it brings.';
COMMENT ON COLUMN topup_prices.bonus IS 'Gifted coins that it brings.';
COMMENT ON COLUMN topup_prices.app_no IS 'The app.';
COMMENT ON COLUMN topup_prices.version IS 'The list.';
COMMENT ON COLUMN topup_prices.active IS 'Whether the product is for sale.';
COMMENT ON COLUMN topup_prices.product_id IS '1 to 64 of 0-9A-Za-z._-.';
COMMENT ON COLUMN topup_prices.currency IS 'Code of ISO 4217.';
COMMENT ON COLUMN topup_prices.name IS 'Name for people. It may be empty.';

CREATE TABLE topup_payments (
    amount            bigint      NOT NULL,
    fee               bigint,
    wallet_no         bigint,
    seq               bigint,
    charge            bigint,
    bonus             bigint,
    free_balance      bigint,
    charge_balance    bigint,
    paid_at           timestamptz NOT NULL,
    created_at        timestamptz NOT NULL,
    credited_at       timestamptz,
    app_no            integer     NOT NULL,
    provider          text        COLLATE "C" NOT NULL,
    provider_order_id text        COLLATE "C" NOT NULL,
    currency          text        NOT NULL,
    biz_no            text        COLLATE "C",
    open_id           text        COLLATE "C",
    product_id        text        COLLATE "C",
    state             text        NOT NULL,
    reason            text,
    paid_biz_no       text        COLLATE "C",
    paid_product_id   text        COLLATE "C",
    os                text,
    note              text        NOT NULL,
    told_by           text        NOT NULL,
    CONSTRAINT topup_payments_pkey PRIMARY KEY (app_no, provider, provider_order_id),
    CONSTRAINT topup_payments_amount_positive CHECK (amount >= 1),
    CONSTRAINT topup_payments_fee_not_negative CHECK (fee >= 0),
    CONSTRAINT topup_payments_names_target CHECK (biz_no IS NOT NULL OR (open_id IS NOT NULL AND product_id IS NOT NULL)),
    CONSTRAINT topup_payments_state_known CHECK (state IN ('paid', 'unmatched', 'paid_back')),
    CONSTRAINT topup_payments_reason_known CHECK (reason IN ('unknown_order', 'order_paid', 'other_player', 'other_product',
        'other_currency', 'other_amount', 'unknown_player', 'unknown_product', 'purse_full')),
    CONSTRAINT topup_payments_unmatched_has_reason CHECK (state = 'paid' OR reason IS NOT NULL),
    CONSTRAINT topup_payments_paid_is_credited CHECK (
        (state = 'paid') = (wallet_no IS NOT NULL) AND (wallet_no IS NULL) = (seq IS NULL) AND (seq IS NULL) = (charge IS NULL)
        AND (charge IS NULL) = (bonus IS NULL) AND (charge IS NULL) = (free_balance IS NULL)
        AND (charge IS NULL) = (charge_balance IS NULL) AND (charge IS NULL) = (credited_at IS NULL)
        AND (charge IS NULL) = (paid_product_id IS NULL) AND (charge IS NOT NULL OR paid_biz_no IS NULL)),
    CONSTRAINT topup_payments_coins_not_negative CHECK (charge >= 0 AND bonus >= 0 AND charge + bonus >= 1)
);
COMMENT ON TABLE topup_payments IS 'Payments that providers told of (contract 19.3). One that was credited is written in the transaction of its ledger entry. A row is never deleted, so a payment takes effect at most once. Only a settlement updates it, and the erasure of a player.';
COMMENT ON COLUMN topup_payments.amount IS 'Money in minor units of the currency, as told.';
COMMENT ON COLUMN topup_payments.fee IS 'What the provider keeps, in minor units. Null where it was not told.';
COMMENT ON COLUMN topup_payments.wallet_no IS 'The wallet that was credited. Null while nothing was credited, as are the columns up to credited_at but paid_at and created_at.';
COMMENT ON COLUMN topup_payments.seq IS 'Sequence number of its ledger entry.';
COMMENT ON COLUMN topup_payments.charge IS 'Charged coins that were credited.';
COMMENT ON COLUMN topup_payments.bonus IS 'Gifted coins that were credited.';
COMMENT ON COLUMN topup_payments.free_balance IS 'Gifted currency right after it.';
COMMENT ON COLUMN topup_payments.charge_balance IS 'Charged currency right after it.';
COMMENT ON COLUMN topup_payments.paid_at IS 'When it was paid, as told.';
COMMENT ON COLUMN topup_payments.created_at IS 'Database time when it was first told of.';
COMMENT ON COLUMN topup_payments.credited_at IS 'Time of its ledger entry.';
COMMENT ON COLUMN topup_payments.app_no IS 'The app.';
COMMENT ON COLUMN topup_payments.provider IS 'The payment provider: 1 to 32 of 0-9a-z_-.';
COMMENT ON COLUMN topup_payments.provider_order_id IS 'The provider''s id: 1 to 128 printable ASCII characters.';
COMMENT ON COLUMN topup_payments.currency IS 'Code of ISO 4217, as told.';
COMMENT ON COLUMN topup_payments.biz_no IS 'The order, as told. Null where none was.';
COMMENT ON COLUMN topup_payments.open_id IS 'The player, as told. Null where none was. A pseudonym once the player is erased.';
COMMENT ON COLUMN topup_payments.product_id IS 'The product, as told. Null where none was.';
COMMENT ON COLUMN topup_payments.state IS 'paid: it was credited. unmatched: it fits nothing, and an operator must settle it. paid_back: an operator did, and the money went back.';
COMMENT ON COLUMN topup_payments.reason IS 'Why it fitted nothing when it was first told of. It stays after the settlement. Null for one that fitted.';
COMMENT ON COLUMN topup_payments.paid_biz_no IS 'The order that it has paid. Null without an order.';
COMMENT ON COLUMN topup_payments.paid_product_id IS 'The product that was credited.';
COMMENT ON COLUMN topup_payments.os IS 'Platform of the player, as told. Null where it was not.';
COMMENT ON COLUMN topup_payments.note IS 'Note for people. It may be empty.';
COMMENT ON COLUMN topup_payments.told_by IS 'Who told of it first: the operator''s kind and name.';
-- Two payments never pay one order.
CREATE UNIQUE INDEX topup_payments_order ON topup_payments (app_no, paid_biz_no) WHERE paid_biz_no IS NOT NULL;
-- A ledger entry is of one payment.
CREATE UNIQUE INDEX topup_payments_entry ON topup_payments (app_no, wallet_no, seq) WHERE wallet_no IS NOT NULL;
CREATE INDEX topup_payments_created_at ON topup_payments (app_no, created_at);
CREATE INDEX topup_payments_unmatched ON topup_payments (app_no, created_at) WHERE state = 'unmatched';

-- What somebody has moved in the last day (contract 8.6.40).
DROP INDEX operator_log_moves;
CREATE INDEX operator_log_moves ON operator_log (operator_kind, operator, at)
    WHERE action IN ('wallet.credit', 'wallet.credits', 'wallet.debit', 'wallet.cancel', 'topup.settle');

-- The role of keys that tell of payments.
ALTER TABLE api_keys DROP CONSTRAINT api_keys_role_known;
ALTER TABLE api_keys ADD CONSTRAINT api_keys_role_known CHECK (
    role IN ('viewer', 'support', 'finance', 'payments', 'developer', 'admin'));
COMMENT ON COLUMN api_keys.role IS 'viewer, who may only read, support, finance, payments, developer, or admin.';
ALTER TABLE console_users DROP CONSTRAINT console_users_role_known;
ALTER TABLE console_users ADD CONSTRAINT console_users_role_known CHECK (
    role IN ('viewer', 'support', 'finance', 'payments', 'developer', 'admin'));
ALTER TABLE console_requests DROP CONSTRAINT console_requests_role_known;
ALTER TABLE console_requests ADD CONSTRAINT console_requests_role_known CHECK (
    role IN ('viewer', 'support', 'finance', 'payments', 'developer', 'admin'));
