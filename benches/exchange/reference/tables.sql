-- What a careful team would make by hand: a table of wallets like ours, and one row for each
-- exchange that holds all that our record and our ledger entry hold, each column once.

CREATE SCHEMA reference;

CREATE TABLE reference.wallets (
    app_id         text        NOT NULL,
    open_id        text        NOT NULL,
    free_balance   bigint      NOT NULL DEFAULT 0 CHECK (free_balance >= 0),
    charge_balance bigint      NOT NULL DEFAULT 0 CHECK (charge_balance >= 0),
    entry_count    bigint      NOT NULL DEFAULT 0,
    created_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (app_id, open_id)
) WITH (fillfactor = 70);

CREATE TABLE reference.exchanges (
    app_id         text        NOT NULL,
    biz_no         text        NOT NULL,
    open_id        text        NOT NULL,
    seq            bigint      NOT NULL,
    amount         bigint      NOT NULL CHECK (amount >= 1),
    pay_priority   smallint    NOT NULL,
    zone_id        text        NOT NULL,
    os             text        NOT NULL,
    ts             bigint      NOT NULL,
    user_ip        text        NOT NULL,
    product_name   text        NOT NULL,
    product_info   text        NOT NULL,
    product_desc   text        NOT NULL,
    extension      text        NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT now(),
    kind           text        NOT NULL,
    reference      text        NOT NULL,
    free_change    bigint      NOT NULL,
    charge_change  bigint      NOT NULL,
    free_balance   bigint      NOT NULL,
    charge_balance bigint      NOT NULL,
    at             timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT exchanges_pkey PRIMARY KEY (app_id, biz_no)
);

-- The tables of orders are ours: a team by hand would make the same.
CREATE TABLE reference.images (LIKE public.images INCLUDING ALL);
CREATE TABLE reference.orders (LIKE public.orders INCLUDING ALL);
CREATE TABLE reference.order_payments (LIKE public.order_payments INCLUDING ALL);
CREATE TABLE reference.order_events (LIKE public.order_events INCLUDING ALL);
