-- The search of the console finds a payment by the provider's id of its refund. The key of refunds has the payment before it.

CREATE INDEX topup_refunds_id ON topup_refunds (refund_id);
