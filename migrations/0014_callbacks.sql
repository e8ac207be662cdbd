-- Payment providers that call back.

CREATE TABLE topup_providers (
    set_at        timestamptz NOT NULL DEFAULT now(),
    former_until  timestamptz,
    app_id        text        COLLATE "C" NOT NULL,
    provider      text        COLLATE "C" NOT NULL,
    format        text        NOT NULL,
    secret        bytea       NOT NULL,
    former_secret bytea,
    CONSTRAINT topup_providers_pkey PRIMARY KEY (app_id, provider),
    CONSTRAINT topup_providers_format_known CHECK (format IN ('standard', 'stripe')),
    CONSTRAINT topup_providers_former_secret_dated CHECK ((former_secret IS NULL) = (former_until IS NULL))
);
COMMENT ON TABLE topup_providers IS 'Payment providers whose callbacks an app takes (contract 19.4).';
COMMENT ON COLUMN topup_providers.set_at IS 'Time when format and secret were set.';
COMMENT ON COLUMN topup_providers.former_until IS 'Time until which the former secret is valid.';
COMMENT ON COLUMN topup_providers.app_id IS 'The app.';
COMMENT ON COLUMN topup_providers.provider IS 'The payment provider: 1 to 32 of 0-9a-z_-.';
COMMENT ON COLUMN topup_providers.format IS 'How its callbacks look and are signed: standard or stripe.';
COMMENT ON COLUMN topup_providers.secret IS 'Secret that signs its callbacks, encrypted with AES-256-GCM under the master key. The app id is the associated data.';
COMMENT ON COLUMN topup_providers.former_secret IS 'Secret before the present one, encrypted in the same way. Null before the second.';

COMMENT ON COLUMN operator_log.operator_kind IS 'Face that was used: command_line, console or api_key; or provider, for a callback of a payment provider.';
