-- An operator stops one player and not the app.

-- Whoever reads the table for long would make all payments wait behind this statement.
SELECT set_config('lock_timeout', '5s', true);

ALTER TABLE wallets ADD COLUMN frozen_until timestamptz;
COMMENT ON COLUMN wallets.frozen_until IS 'Until then no request of a game changes the purses: infinity without an end. NULL: the wallet is not frozen.';

CREATE OR REPLACE VIEW players AS
SELECT a.app_id, w.open_id, w.free_balance, w.charge_balance, w.entry_count, w.chain_hash, w.created_at, w.app_no,
    w.wallet_no, w.frozen_until
FROM wallets w JOIN apps a ON a.app_no = w.app_no;
