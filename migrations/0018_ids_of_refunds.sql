-- The search of the console finds a payment by the provider's id of its refund. The key of refunds has the payment before it.

CREATE INDEX topup_refunds_id ON topup_refunds (refund_id);

COMMENT ON COLUMN topup_payments.free_balance IS 'Gifted currency after it, and after the refunds that waited for it. Before version 18 of the schema, without these refunds.';
COMMENT ON COLUMN topup_payments.charge_balance IS 'Charged currency after it, and after the refunds that waited for it. Before version 18 of the schema, without these refunds.';
