-- Refunds of payments, and debts of wallets.

-- Whoever reads the tables for long would make all payments wait behind these statements.
SELECT set_config('lock_timeout', '5s', true);

-- Former rows were held to the narrower rules, so nothing reads them again.
ALTER TABLE ledger_entries DROP CONSTRAINT ledger_entries_kind_known;
ALTER TABLE ledger_entries ADD CONSTRAINT ledger_entries_kind_known CHECK (
    kind IN ('exchange', 'present', 'cancel', 'closed', 'credit', 'debit', 'topup_order', 'topup', 'refund', 'settlement'))
    NOT VALID;
COMMENT ON COLUMN ledger_entries.kind IS 'exchange, present, cancel, closed, credit, debit, topup_order, topup, refund or settlement.';
COMMENT ON COLUMN ledger_entries.reference IS 'The biz_no of a game. Of an operator''s entry: an exclamation mark and the ref. Of a top-up: a dollar sign, the provider, a slash and the provider''s id. Of a refund: a per cent sign, the payment as there, a slash and the refund''s id. Of a settlement: an ampersand and the payment. So the namespaces never meet.';
ALTER TABLE archived_entries DROP CONSTRAINT archived_entries_kind_known;
ALTER TABLE archived_entries ADD CONSTRAINT archived_entries_kind_known CHECK (
    kind IN ('exchange', 'present', 'cancel', 'closed', 'credit', 'debit', 'topup_order', 'topup', 'refund', 'settlement'))
    NOT VALID;

CREATE TABLE topup_refunds (
    amount             bigint      NOT NULL,
    wallet_no          bigint,
    seq                bigint,
    free_taken         bigint,
    charge_taken       bigint,
    free_debt          bigint,
    charge_debt        bigint,
    free_owed          bigint,
    charge_owed        bigint,
    wallet_free_debt   bigint,
    wallet_charge_debt bigint,
    free_balance       bigint,
    charge_balance     bigint,
    created_at         timestamptz NOT NULL,
    refunded_at        timestamptz,
    app_no             integer     NOT NULL,
    provider           text        COLLATE "C" NOT NULL,
    provider_order_id  text        COLLATE "C" NOT NULL,
    refund_id          text        COLLATE "C" NOT NULL,
    state              text        NOT NULL,
    reason             text        NOT NULL,
    told_by            text        NOT NULL,
    CONSTRAINT topup_refunds_pkey PRIMARY KEY (app_no, provider, provider_order_id, refund_id),
    CONSTRAINT topup_refunds_amount_positive CHECK (amount >= 1),
    CONSTRAINT topup_refunds_state_known CHECK (state IN ('waiting', 'refunded', 'refused')),
    CONSTRAINT topup_refunds_refunded_at_known CHECK ((state = 'refunded') = (refunded_at IS NOT NULL)),
    CONSTRAINT topup_refunds_refunded_has_entry CHECK (
        (wallet_no IS NULL OR state = 'refunded') AND (wallet_no IS NULL) = (seq IS NULL)
        AND (seq IS NULL) = (free_taken IS NULL) AND (seq IS NULL) = (charge_taken IS NULL)
        AND (seq IS NULL) = (free_debt IS NULL) AND (seq IS NULL) = (charge_debt IS NULL)
        AND (seq IS NULL) = (free_owed IS NULL) AND (seq IS NULL) = (charge_owed IS NULL)
        AND (seq IS NULL) = (wallet_free_debt IS NULL) AND (seq IS NULL) = (wallet_charge_debt IS NULL)
        AND (seq IS NULL) = (free_balance IS NULL) AND (seq IS NULL) = (charge_balance IS NULL)),
    CONSTRAINT topup_refunds_coins_not_negative CHECK (
        free_taken >= 0 AND charge_taken >= 0 AND free_owed BETWEEN 0 AND free_debt AND charge_owed BETWEEN 0 AND charge_debt
        AND wallet_free_debt >= free_debt AND wallet_charge_debt >= charge_debt)
);
COMMENT ON TABLE topup_refunds IS 'Refunds of payments that somebody told of (contract 19.5). One that was carried out is written in the transaction of its ledger entry. A row is never deleted, so a refund takes effect at most once. Only its carrying out updates it, a settlement of its debt, and the erasure of a player.';
COMMENT ON COLUMN topup_refunds.amount IS 'Money in minor units of the currency of the payment.';
COMMENT ON COLUMN topup_refunds.wallet_no IS 'The wallet that it was taken from. Null while nothing was, and for a refund of money that went back before a credit, as are the columns up to charge_balance.';
COMMENT ON COLUMN topup_refunds.seq IS 'Sequence number of its ledger entry.';
COMMENT ON COLUMN topup_refunds.free_taken IS 'Gifted coins that were taken from the purse.';
COMMENT ON COLUMN topup_refunds.charge_taken IS 'Charged coins that were taken from the purse.';
COMMENT ON COLUMN topup_refunds.free_debt IS 'Gifted coins that the purse did not hold. They became debt.';
COMMENT ON COLUMN topup_refunds.charge_debt IS 'Charged coins that the purse did not hold. They became debt.';
COMMENT ON COLUMN topup_refunds.free_owed IS 'What is left of free_debt after the settlements.';
COMMENT ON COLUMN topup_refunds.charge_owed IS 'What is left of charge_debt after the settlements.';
COMMENT ON COLUMN topup_refunds.wallet_free_debt IS 'All gifted debt of the wallet right after it.';
COMMENT ON COLUMN topup_refunds.wallet_charge_debt IS 'All charged debt of the wallet right after it.';
COMMENT ON COLUMN topup_refunds.free_balance IS 'Gifted currency right after it.';
COMMENT ON COLUMN topup_refunds.charge_balance IS 'Charged currency right after it.';
COMMENT ON COLUMN topup_refunds.created_at IS 'Database time when it was first told of.';
COMMENT ON COLUMN topup_refunds.refunded_at IS 'Time of its ledger entry, or when it turned out that nothing is to be taken.';
COMMENT ON COLUMN topup_refunds.app_no IS 'The app.';
COMMENT ON COLUMN topup_refunds.provider IS 'The payment provider: 1 to 32 of 0-9a-z_-.';
COMMENT ON COLUMN topup_refunds.provider_order_id IS 'The provider''s id of the payment: 1 to 128 printable ASCII characters.';
COMMENT ON COLUMN topup_refunds.refund_id IS 'The provider''s id of the refund: 1 to 64 printable ASCII characters without a slash.';
COMMENT ON COLUMN topup_refunds.state IS 'waiting: its payment is not credited yet. refunded: it was carried out. refused: it waited, and the refunds would have exceeded the payment.';
COMMENT ON COLUMN topup_refunds.reason IS 'Why, for people. Empty once the player is erased.';
COMMENT ON COLUMN topup_refunds.told_by IS 'Who told of it first: the operator''s kind and name.';
-- A ledger entry is of one refund.
CREATE UNIQUE INDEX topup_refunds_entry ON topup_refunds (app_no, wallet_no, seq) WHERE wallet_no IS NOT NULL;
-- The debts of a wallet. Few wallets have any.
CREATE INDEX topup_refunds_owed ON topup_refunds (app_no, wallet_no, seq) WHERE free_owed > 0 OR charge_owed > 0;

CREATE TABLE topup_settlements (
    wallet_no          bigint      NOT NULL,
    seq                bigint      NOT NULL,
    free_settled       bigint      NOT NULL,
    charge_settled     bigint      NOT NULL,
    wallet_free_debt   bigint      NOT NULL,
    wallet_charge_debt bigint      NOT NULL,
    settled_at         timestamptz NOT NULL,
    app_no             integer     NOT NULL,
    provider           text        COLLATE "C" NOT NULL,
    provider_order_id  text        COLLATE "C" NOT NULL,
    CONSTRAINT topup_settlements_pkey PRIMARY KEY (app_no, wallet_no, seq),
    CONSTRAINT topup_settlements_settles CHECK (free_settled >= 0 AND charge_settled >= 0 AND (free_settled > 0 OR charge_settled > 0)),
    CONSTRAINT topup_settlements_debt_not_negative CHECK (wallet_free_debt >= 0 AND wallet_charge_debt >= 0)
);
COMMENT ON TABLE topup_settlements IS 'Debts of wallets that top-ups have settled (contract 19.5). A row is written in the transaction of its ledger entry, never updated and never deleted.';
COMMENT ON COLUMN topup_settlements.wallet_no IS 'The wallet.';
COMMENT ON COLUMN topup_settlements.seq IS 'Sequence number of its ledger entry, the next one behind that of the top-up.';
COMMENT ON COLUMN topup_settlements.free_settled IS 'Gifted coins that were taken.';
COMMENT ON COLUMN topup_settlements.charge_settled IS 'Charged coins that were taken.';
COMMENT ON COLUMN topup_settlements.wallet_free_debt IS 'All gifted debt of the wallet right after it.';
COMMENT ON COLUMN topup_settlements.wallet_charge_debt IS 'All charged debt of the wallet right after it.';
COMMENT ON COLUMN topup_settlements.settled_at IS 'Time of its ledger entry.';
COMMENT ON COLUMN topup_settlements.app_no IS 'The app.';
COMMENT ON COLUMN topup_settlements.provider IS 'The payment provider of the top-up.';
COMMENT ON COLUMN topup_settlements.provider_order_id IS 'The provider''s id of the payment of the top-up.';

-- What somebody has moved in the last day (contract 8.6.40).
DROP INDEX operator_log_moves;
CREATE INDEX operator_log_moves ON operator_log (operator_kind, operator, at)
    WHERE action IN ('wallet.credit', 'wallet.credits', 'wallet.debit', 'wallet.cancel', 'topup.settle', 'gift.start', 'topup.refund');
