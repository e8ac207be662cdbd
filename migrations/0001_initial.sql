-- The whole of Minitill's data. Every key starts with the app, the tenant (contract 2.9), so that
-- an engine that spreads PostgreSQL over many machines can distribute every table by app_id.
-- No triggers, sequences, stored procedures or foreign keys across tables on the hot path:
-- the program checks and writes what belongs together in one transaction.

CREATE TABLE apps (
    app_id         text        NOT NULL,
    name           text        NOT NULL DEFAULT '',
    category       text        NOT NULL DEFAULT 'general',
    scopes         text[]      NOT NULL DEFAULT '{}',
    sandbox        boolean     NOT NULL DEFAULT false,
    preorder_check boolean     NOT NULL DEFAULT false,
    suspended_at   timestamptz,
    app_secret     bytea       NOT NULL,
    exchanges_per_second integer,
    reports_per_second   integer,
    uploads_per_second   integer,
    tokens_per_second    integer,
    created_at     timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT apps_pkey PRIMARY KEY (app_id),
    CONSTRAINT apps_category_known CHECK (category IN ('general', 'local_life')),
    CONSTRAINT apps_limits_not_negative CHECK (
        exchanges_per_second >= 0 AND reports_per_second >= 0
        AND uploads_per_second >= 0 AND tokens_per_second >= 0)
);
COMMENT ON TABLE apps IS 'A mini-game or mini-program: the tenant that every other row belongs to.';
COMMENT ON COLUMN apps.app_id IS '1 to 64 of 0-9A-Za-z_-.';
COMMENT ON COLUMN apps.name IS 'For people; may be empty.';
COMMENT ON COLUMN apps.category IS 'local_life makes product_id, product_catalog_code and product_city required in order reports.';
COMMENT ON COLUMN apps.scopes IS 'Permission scopes; epay is needed to report orders.';
COMMENT ON COLUMN apps.sandbox IS 'A sandbox app is told why its signature does not match.';
COMMENT ON COLUMN apps.preorder_check IS 'Whether out_order_no of a report must be a registered payment pre-order.';
COMMENT ON COLUMN apps.suspended_at IS 'Set while the operator has suspended the app.';
COMMENT ON COLUMN apps.app_secret IS 'App secret, AES-256-GCM under the master key, the app id as associated data.';
COMMENT ON COLUMN apps.exchanges_per_second IS 'Own limit of this app; null takes the setting, 0 is no limit.';
COMMENT ON COLUMN apps.reports_per_second IS 'Own limit of this app; null takes the setting, 0 is no limit.';
COMMENT ON COLUMN apps.uploads_per_second IS 'Own limit of this app; null takes the setting, 0 is no limit.';
COMMENT ON COLUMN apps.tokens_per_second IS 'Own limit of this app; null takes the setting, 0 is no limit.';
COMMENT ON COLUMN apps.created_at IS 'When the app was created.';

CREATE TABLE pay_keys (
    app_id     text        NOT NULL,
    generation integer     NOT NULL,
    pay_key    bytea       NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pay_keys_pkey PRIMARY KEY (app_id, generation)
);
COMMENT ON TABLE pay_keys IS 'Keys that sign exchanges. The two highest generations of an app are live; older ones are retired and kept only to name that mistake to a sandbox app.';
COMMENT ON COLUMN pay_keys.app_id IS 'The app.';
COMMENT ON COLUMN pay_keys.generation IS '1 for the first key, one more at each rotation.';
COMMENT ON COLUMN pay_keys.pay_key IS 'The key, AES-256-GCM under the master key, the app id as associated data.';
COMMENT ON COLUMN pay_keys.created_at IS 'When the key was made.';

CREATE TABLE access_tokens (
    app_id     text        NOT NULL,
    token_hash bytea       NOT NULL,
    issued_at  timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    CONSTRAINT access_tokens_pkey PRIMARY KEY (app_id, token_hash)
);
CREATE INDEX access_tokens_expires_at ON access_tokens (expires_at);
COMMENT ON TABLE access_tokens IS 'Access tokens by their hash; the token itself is stored nowhere. Rows are removed a week after they expire.';
COMMENT ON COLUMN access_tokens.app_id IS 'The app the token speaks for.';
COMMENT ON COLUMN access_tokens.token_hash IS 'SHA-256 of the token text.';
COMMENT ON COLUMN access_tokens.issued_at IS 'When it was issued.';
COMMENT ON COLUMN access_tokens.expires_at IS 'When it ends.';

CREATE TABLE wallets (
    app_id         text        NOT NULL,
    open_id        text        NOT NULL,
    free_balance   bigint      NOT NULL DEFAULT 0,
    charge_balance bigint      NOT NULL DEFAULT 0,
    entry_count    bigint      NOT NULL DEFAULT 0,
    created_at     timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT wallets_pkey PRIMARY KEY (app_id, open_id),
    CONSTRAINT wallets_free_balance_not_negative CHECK (free_balance >= 0),
    CONSTRAINT wallets_charge_balance_not_negative CHECK (charge_balance >= 0),
    CONSTRAINT wallets_entry_count_not_negative CHECK (entry_count >= 0)
) WITH (fillfactor = 70);
COMMENT ON TABLE wallets IS 'What a player has now. A row here is what makes an open_id known to its app. The room left in each page keeps balance updates off the index.';
COMMENT ON COLUMN wallets.app_id IS 'The app.';
COMMENT ON COLUMN wallets.open_id IS 'The player, 1 to 64 of 0-9A-Za-z_-.';
COMMENT ON COLUMN wallets.free_balance IS 'Gifted currency.';
COMMENT ON COLUMN wallets.charge_balance IS 'Charged currency.';
COMMENT ON COLUMN wallets.entry_count IS 'Sequence number of the last ledger entry; 0 before the first.';
COMMENT ON COLUMN wallets.created_at IS 'When the player became known.';

CREATE TABLE ledger_entries (
    app_id         text        NOT NULL,
    open_id        text        NOT NULL,
    seq            bigint      NOT NULL,
    kind           text        NOT NULL,
    reference      text        NOT NULL,
    free_change    bigint      NOT NULL,
    charge_change  bigint      NOT NULL,
    free_balance   bigint      NOT NULL,
    charge_balance bigint      NOT NULL,
    at             timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT ledger_entries_pkey PRIMARY KEY (app_id, open_id, seq),
    CONSTRAINT ledger_entries_seq_positive CHECK (seq >= 1),
    CONSTRAINT ledger_entries_kind_known CHECK (kind IN ('credit', 'exchange')),
    CONSTRAINT ledger_entries_free_balance_not_negative CHECK (free_balance >= 0),
    CONSTRAINT ledger_entries_charge_balance_not_negative CHECK (charge_balance >= 0)
);
COMMENT ON TABLE ledger_entries IS 'Every change of every wallet, gapless, never updated nor deleted.';
COMMENT ON COLUMN ledger_entries.app_id IS 'The app.';
COMMENT ON COLUMN ledger_entries.open_id IS 'The player.';
COMMENT ON COLUMN ledger_entries.seq IS '1 for the first entry of a wallet, one more for each after it.';
COMMENT ON COLUMN ledger_entries.kind IS 'credit or exchange.';
COMMENT ON COLUMN ledger_entries.reference IS 'The ref of a credit, the biz_no of an exchange.';
COMMENT ON COLUMN ledger_entries.free_change IS 'Change of the gifted purse; a deduction is negative.';
COMMENT ON COLUMN ledger_entries.charge_change IS 'Change of the charged purse; a deduction is negative.';
COMMENT ON COLUMN ledger_entries.free_balance IS 'Gifted currency after this entry.';
COMMENT ON COLUMN ledger_entries.charge_balance IS 'Charged currency after this entry.';
COMMENT ON COLUMN ledger_entries.at IS 'Database time of the transaction.';

CREATE TABLE exchanges (
    app_id       text        NOT NULL,
    biz_no       text        NOT NULL,
    open_id      text        NOT NULL,
    seq          bigint      NOT NULL,
    amount       bigint      NOT NULL,
    pay_priority smallint    NOT NULL,
    zone_id      text        NOT NULL,
    os           text        NOT NULL,
    ts           bigint      NOT NULL,
    user_ip      text        NOT NULL,
    product_name text        NOT NULL,
    product_info text        NOT NULL,
    product_desc text        NOT NULL,
    extension    text        NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT exchanges_pkey PRIMARY KEY (app_id, biz_no),
    CONSTRAINT exchanges_amount_positive CHECK (amount >= 1),
    CONSTRAINT exchanges_pay_priority_known CHECK (pay_priority IN (0, 1))
);
COMMENT ON TABLE exchanges IS 'The idempotency record of each exchange that deducted, kept for ever: a biz_no deducts at most once.';
COMMENT ON COLUMN exchanges.app_id IS 'The app.';
COMMENT ON COLUMN exchanges.biz_no IS 'The game''s order number, 1 to 63 of 0-9A-Za-z.';
COMMENT ON COLUMN exchanges.open_id IS 'The player whose wallet paid.';
COMMENT ON COLUMN exchanges.seq IS 'The ledger entry of the deduction, in that wallet.';
COMMENT ON COLUMN exchanges.amount IS 'What was deducted from both purses together.';
COMMENT ON COLUMN exchanges.pay_priority IS 'Effective priority: 0 charged first, 1 gifted first.';
COMMENT ON COLUMN exchanges.zone_id IS 'Zone and role, as sent.';
COMMENT ON COLUMN exchanges.os IS 'Platform, as sent with the first success.';
COMMENT ON COLUMN exchanges.ts IS 'Time of the request in milliseconds, as sent with the first success.';
COMMENT ON COLUMN exchanges.user_ip IS 'Address of the player, as sent with the first success; never logged.';
COMMENT ON COLUMN exchanges.product_name IS 'As sent.';
COMMENT ON COLUMN exchanges.product_info IS 'JSON text of the items, as sent.';
COMMENT ON COLUMN exchanges.product_desc IS 'As sent.';
COMMENT ON COLUMN exchanges.extension IS 'As sent; empty when absent.';
COMMENT ON COLUMN exchanges.created_at IS 'First success, database time; replays are answered for 48 hours from here.';

CREATE TABLE credits (
    app_id     text        NOT NULL,
    ref        text        NOT NULL,
    open_id    text        NOT NULL,
    seq        bigint      NOT NULL,
    note       text        NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT credits_pkey PRIMARY KEY (app_id, ref)
);
COMMENT ON TABLE credits IS 'The idempotency record of each credit: a ref is unique within its app, for ever.';
COMMENT ON COLUMN credits.app_id IS 'The app.';
COMMENT ON COLUMN credits.ref IS 'The operator''s reference.';
COMMENT ON COLUMN credits.open_id IS 'The player whose wallet was credited.';
COMMENT ON COLUMN credits.seq IS 'The ledger entry of the credit, in that wallet.';
COMMENT ON COLUMN credits.note IS 'For people; may be empty.';
COMMENT ON COLUMN credits.created_at IS 'Database time of the credit.';

CREATE TABLE packages (
    app_id       text        NOT NULL,
    version      text        NOT NULL,
    pages        text[]      NOT NULL,
    published_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT packages_pkey PRIMARY KEY (app_id, version)
);
COMMENT ON TABLE packages IS 'Published versions of mini-program packages and their pages. The latest published one decides which order_path is legal.';
COMMENT ON COLUMN packages.app_id IS 'The app.';
COMMENT ON COLUMN packages.version IS 'Version text; publishing it again replaces its pages and makes it the latest.';
COMMENT ON COLUMN packages.pages IS 'Page paths without a leading slash.';
COMMENT ON COLUMN packages.published_at IS 'When it was published.';

CREATE TABLE pois (
    app_id        text        NOT NULL,
    poi_id        text        NOT NULL,
    registered_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pois_pkey PRIMARY KEY (app_id, poi_id)
);
COMMENT ON TABLE pois IS 'Points of interest an order may name.';
COMMENT ON COLUMN pois.app_id IS 'The app.';
COMMENT ON COLUMN pois.poi_id IS 'Id of the point of interest.';
COMMENT ON COLUMN pois.registered_at IS 'When the operator registered it.';

CREATE TABLE preorders (
    app_id        text        NOT NULL,
    out_order_no  text        NOT NULL,
    registered_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT preorders_pkey PRIMARY KEY (app_id, out_order_no)
);
COMMENT ON TABLE preorders IS 'Payment pre-orders, asked for when an app has preorder_check.';
COMMENT ON COLUMN preorders.app_id IS 'The app.';
COMMENT ON COLUMN preorders.out_order_no IS 'Number of the payment pre-order.';
COMMENT ON COLUMN preorders.registered_at IS 'When the operator registered it.';

CREATE TABLE orders (
    app_id               text        NOT NULL,
    out_biz_order_no     text        NOT NULL,
    out_order_no         text        NOT NULL,
    open_id              text        NOT NULL,
    order_create_time    bigint      NOT NULL,
    order_status         smallint    NOT NULL,
    goods_kind           text,
    order_path           text        NOT NULL,
    product_cover_img_id text        NOT NULL,
    order_backup_url     text,
    poi_id               text,
    product_id           text,
    product_catalog_code bigint,
    product_city         text,
    event_count          bigint      NOT NULL,
    created_at           timestamptz NOT NULL DEFAULT now(),
    updated_at           timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT orders_pkey PRIMARY KEY (app_id, out_biz_order_no),
    CONSTRAINT orders_status_known CHECK (order_status IN (1, 2, 3, 4, 5, 6, 10, 11, 12, 13, 14, 15)),
    CONSTRAINT orders_goods_kind_known CHECK (goods_kind IN ('virtual', 'physical'))
);
COMMENT ON TABLE orders IS 'The present state of each reported order.';
COMMENT ON COLUMN orders.app_id IS 'The app.';
COMMENT ON COLUMN orders.out_biz_order_no IS 'Order number shown to the user.';
COMMENT ON COLUMN orders.out_order_no IS 'Payment pre-order number of the last report.';
COMMENT ON COLUMN orders.open_id IS 'The owner; does not change.';
COMMENT ON COLUMN orders.order_create_time IS 'Milliseconds; does not change.';
COMMENT ON COLUMN orders.order_status IS 'Status code of the last report.';
COMMENT ON COLUMN orders.goods_kind IS 'virtual once in 10 or 11, physical once in 12 to 15, null before.';
COMMENT ON COLUMN orders.order_path IS 'In-app path, as sent.';
COMMENT ON COLUMN orders.product_cover_img_id IS 'Cover image.';
COMMENT ON COLUMN orders.order_backup_url IS 'Fallback web link.';
COMMENT ON COLUMN orders.poi_id IS 'Point of interest.';
COMMENT ON COLUMN orders.product_id IS 'Product id of the product library.';
COMMENT ON COLUMN orders.product_catalog_code IS 'Product category code.';
COMMENT ON COLUMN orders.product_city IS 'City of the product.';
COMMENT ON COLUMN orders.event_count IS 'Sequence number of the last event.';
COMMENT ON COLUMN orders.created_at IS 'First report, database time.';
COMMENT ON COLUMN orders.updated_at IS 'Last report that changed something, database time.';

CREATE TABLE order_payments (
    app_id           text        NOT NULL,
    out_order_no     text        NOT NULL,
    out_biz_order_no text        NOT NULL,
    first_seen_at    timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT order_payments_pkey PRIMARY KEY (app_id, out_order_no)
);
COMMENT ON TABLE order_payments IS 'Every payment attempt of every order; a payment number belongs to one order only.';
COMMENT ON COLUMN order_payments.app_id IS 'The app.';
COMMENT ON COLUMN order_payments.out_order_no IS 'Payment pre-order number.';
COMMENT ON COLUMN order_payments.out_biz_order_no IS 'The order it belongs to.';
COMMENT ON COLUMN order_payments.first_seen_at IS 'First report that named it, database time.';

CREATE TABLE order_events (
    app_id           text        NOT NULL,
    out_biz_order_no text        NOT NULL,
    seq              bigint      NOT NULL,
    order_status     smallint    NOT NULL,
    report           jsonb       NOT NULL,
    at               timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT order_events_pkey PRIMARY KEY (app_id, out_biz_order_no, seq)
);
COMMENT ON TABLE order_events IS 'Every report that changed something, with its time.';
COMMENT ON COLUMN order_events.app_id IS 'The app.';
COMMENT ON COLUMN order_events.out_biz_order_no IS 'The order.';
COMMENT ON COLUMN order_events.seq IS '1 for the first report of an order, one more for each that changed it.';
COMMENT ON COLUMN order_events.order_status IS 'Status code after this report.';
COMMENT ON COLUMN order_events.report IS 'The order as it stood after this report.';
COMMENT ON COLUMN order_events.at IS 'Database time of the report.';

CREATE TABLE images (
    app_id      text        NOT NULL,
    img_id      text        NOT NULL,
    sha256      bytea       NOT NULL,
    format      text        NOT NULL,
    side        integer     NOT NULL,
    byte_length integer     NOT NULL,
    uploaded_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT images_pkey PRIMARY KEY (app_id, img_id),
    CONSTRAINT images_sha256_unique UNIQUE (app_id, sha256),
    CONSTRAINT images_format_known CHECK (format IN ('png', 'jpeg')),
    CONSTRAINT images_side_positive CHECK (side >= 1)
);
COMMENT ON TABLE images IS 'Cover images that were accepted.';
COMMENT ON COLUMN images.app_id IS 'The app that uploaded it; the id is useless to another.';
COMMENT ON COLUMN images.img_id IS '48 lower-case hexadecimal characters, random, valid for ever.';
COMMENT ON COLUMN images.sha256 IS 'SHA-256 of the kept bytes: the same bytes again give the same img_id.';
COMMENT ON COLUMN images.format IS 'png or jpeg, by the bytes.';
COMMENT ON COLUMN images.side IS 'Width and height in pixels.';
COMMENT ON COLUMN images.byte_length IS 'Number of kept bytes.';
COMMENT ON COLUMN images.uploaded_at IS 'First upload, database time.';

CREATE TABLE image_bytes (
    app_id text  NOT NULL,
    img_id text  NOT NULL,
    bytes  bytea NOT NULL,
    CONSTRAINT image_bytes_pkey PRIMARY KEY (app_id, img_id)
);
ALTER TABLE image_bytes ALTER COLUMN bytes SET STORAGE EXTERNAL;
COMMENT ON TABLE image_bytes IS 'The pictures themselves, stored as they are: they are compressed already.';
COMMENT ON COLUMN image_bytes.app_id IS 'The app.';
COMMENT ON COLUMN image_bytes.img_id IS 'The image.';
COMMENT ON COLUMN image_bytes.bytes IS 'The picture from its first byte to its last; what followed it was not kept.';

CREATE TABLE master_key_check (
    id    smallint NOT NULL,
    value bytea    NOT NULL,
    CONSTRAINT master_key_check_pkey PRIMARY KEY (id),
    CONSTRAINT master_key_check_single CHECK (id = 1)
);
COMMENT ON TABLE master_key_check IS 'One row that tells whether a master key is the one this database was encrypted with.';
COMMENT ON COLUMN master_key_check.id IS 'Always 1.';
COMMENT ON COLUMN master_key_check.value IS 'A known text, AES-256-GCM under the master key.';
