-- What was asked for when a change was refused, and what the purses held then.

-- Whoever reads the table for long would make the writers of traces wait behind this statement.
SELECT set_config('lock_timeout', '5s', true);

ALTER TABLE exchange_refusals
    ADD COLUMN amount bigint,
    ADD COLUMN product_name text,
    ADD COLUMN free_balance bigint,
    ADD COLUMN charge_balance bigint;
COMMENT ON COLUMN exchange_refusals.amount IS 'Amount that was asked for the last time. NULL where none came that can be one.';
COMMENT ON COLUMN exchange_refusals.product_name IS 'Product of the last time. NULL for a present or a cancel, and where none came that can be one.';
COMMENT ON COLUMN exchange_refusals.free_balance IS 'Gifted purse at the last time. NULL where the refusal came before the till looked at the wallet.';
COMMENT ON COLUMN exchange_refusals.charge_balance IS 'Charged purse at the last time. NULL with free_balance.';
