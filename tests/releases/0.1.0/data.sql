--
-- PostgreSQL database dump
--


-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: _sqlx_migrations; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public._sqlx_migrations (
    version bigint NOT NULL,
    description text NOT NULL,
    installed_on timestamp with time zone DEFAULT now() NOT NULL,
    success boolean NOT NULL,
    checksum bytea NOT NULL,
    execution_time bigint NOT NULL
);


--
-- Name: access_tokens; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.access_tokens (
    app_id text NOT NULL,
    token_hash bytea NOT NULL,
    issued_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone NOT NULL
);


--
-- Name: TABLE access_tokens; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.access_tokens IS 'Access tokens (contract 6.4). A row has only the hash of a token. It is removed a week after the token expires.';


--
-- Name: COLUMN access_tokens.app_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.access_tokens.app_id IS 'The app that the token belongs to.';


--
-- Name: COLUMN access_tokens.token_hash; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.access_tokens.token_hash IS 'SHA-256 of the token.';


--
-- Name: COLUMN access_tokens.issued_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.access_tokens.issued_at IS 'Time when the token was issued.';


--
-- Name: COLUMN access_tokens.expires_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.access_tokens.expires_at IS 'Time when the token expires.';


--
-- Name: api_keys; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.api_keys (
    name text NOT NULL,
    role text NOT NULL,
    apps text[] DEFAULT '{}'::text[] NOT NULL,
    key_sha256 bytea NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    revoked_at timestamp with time zone,
    CONSTRAINT api_keys_role_known CHECK ((role = ANY (ARRAY['viewer'::text, 'support'::text, 'finance'::text, 'developer'::text, 'admin'::text])))
);


--
-- Name: TABLE api_keys; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.api_keys IS 'Keys of the admin API. A row has only the hash of a key. A row is never deleted, so a name in the operator''s log means one key for ever.';


--
-- Name: COLUMN api_keys.name; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.api_keys.name IS 'Name in the operator''s log.';


--
-- Name: COLUMN api_keys.role; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.api_keys.role IS 'viewer, who may only read, support, finance, developer, or admin.';


--
-- Name: COLUMN api_keys.apps; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.api_keys.apps IS 'Ids of the apps that the key sees, in order. Empty: all apps.';


--
-- Name: COLUMN api_keys.key_sha256; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.api_keys.key_sha256 IS 'SHA-256 of the key.';


--
-- Name: COLUMN api_keys.created_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.api_keys.created_at IS 'Database time.';


--
-- Name: COLUMN api_keys.revoked_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.api_keys.revoked_at IS 'Time of the revocation. Null while the key is valid.';


--
-- Name: api_requests; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.api_requests (
    api_key text NOT NULL,
    idempotency_key text NOT NULL,
    content_sha256 bytea NOT NULL,
    attempt bytea NOT NULL,
    answer bytea NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: TABLE api_requests; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.api_requests IS 'Idempotency record of each write of the admin API that succeeded. A repeat gets the same answer and changes nothing. A row is written in the transaction of its change, and removed after a day.';


--
-- Name: COLUMN api_requests.api_key; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.api_requests.api_key IS 'Name of the API key.';


--
-- Name: COLUMN api_requests.idempotency_key; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.api_requests.idempotency_key IS 'Idempotency-Key of the request.';


--
-- Name: COLUMN api_requests.content_sha256; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.api_requests.content_sha256 IS 'SHA-256 of method, path and body. It distinguishes a repeat from another request.';


--
-- Name: COLUMN api_requests.attempt; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.api_requests.attempt IS 'Random bytes. They distinguish the attempt that made the change from its repeats.';


--
-- Name: COLUMN api_requests.answer; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.api_requests.answer IS 'Body of the answer, encrypted with AES-256-GCM. The key is derived from the API key and not stored.';


--
-- Name: COLUMN api_requests.created_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.api_requests.created_at IS 'Database time.';


--
-- Name: apps; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.apps (
    app_id text NOT NULL,
    app_no integer NOT NULL,
    name text DEFAULT ''::text NOT NULL,
    category text DEFAULT 'general'::text NOT NULL,
    scopes text[] DEFAULT '{}'::text[] NOT NULL,
    sandbox boolean DEFAULT false NOT NULL,
    preorder_check boolean DEFAULT false NOT NULL,
    language text DEFAULT 'en'::text NOT NULL,
    suspended_at timestamp with time zone,
    app_secret bytea NOT NULL,
    secret_generation integer DEFAULT 1 NOT NULL,
    secret_created_at timestamp with time zone DEFAULT now() NOT NULL,
    former_secret bytea,
    former_secret_created_at timestamp with time zone,
    exchanges_per_second integer,
    reads_per_second integer,
    reports_per_second integer,
    uploads_per_second integer,
    tokens_per_second integer,
    logins_per_second integer,
    image_bytes_per_day bigint,
    image_bytes_max bigint,
    images_per_day bigint,
    images_max bigint,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT apps_category_known CHECK ((category = ANY (ARRAY['general'::text, 'local_life'::text]))),
    CONSTRAINT apps_former_secret_dated CHECK (((former_secret IS NULL) = (former_secret_created_at IS NULL))),
    CONSTRAINT apps_language_known CHECK ((language = ANY (ARRAY['en'::text, 'zh'::text]))),
    CONSTRAINT apps_limits_not_negative CHECK (((exchanges_per_second >= 0) AND (reads_per_second >= 0) AND (reports_per_second >= 0) AND (uploads_per_second >= 0) AND (tokens_per_second >= 0) AND (logins_per_second >= 0))),
    CONSTRAINT apps_quotas_positive CHECK (((image_bytes_per_day >= 1) AND (image_bytes_max >= 1) AND (images_per_day >= 1) AND (images_max >= 1)))
);


--
-- Name: TABLE apps; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.apps IS 'A mini-game or mini-program. It is the tenant of most other rows.';


--
-- Name: COLUMN apps.app_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.apps.app_id IS '1 to 64 of 0-9A-Za-z_-.';


--
-- Name: COLUMN apps.app_no; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.apps.app_no IS 'Number of the app, from 1. Wallets and ledger entries have it in place of the app id, because it is shorter.';


--
-- Name: COLUMN apps.name; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.apps.name IS 'Name for people. It may be empty.';


--
-- Name: COLUMN apps.category; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.apps.category IS 'general or local_life. local_life requires product_id, product_catalog_code and product_city in an order report.';


--
-- Name: COLUMN apps.scopes; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.apps.scopes IS 'Permission scopes. An order report needs epay.';


--
-- Name: COLUMN apps.sandbox; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.apps.sandbox IS 'True for a sandbox app, which gets a diagnosis of a wrong signature (contract 3.7) and takes codes of sandbox players (contract 11.4).';


--
-- Name: COLUMN apps.preorder_check; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.apps.preorder_check IS 'True when the out_order_no of a report must be a registered payment pre-order.';


--
-- Name: COLUMN apps.language; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.apps.language IS 'Language of the texts of refusals: en or zh (contract 14.1).';


--
-- Name: COLUMN apps.suspended_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.apps.suspended_at IS 'Time of the suspension. Null while the app is not suspended.';


--
-- Name: COLUMN apps.app_secret; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.apps.app_secret IS 'App secret, encrypted with AES-256-GCM under the master key. The app id is the associated data.';


--
-- Name: COLUMN apps.secret_generation; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.apps.secret_generation IS '1 for the first app secret. Each rotation adds one.';


--
-- Name: COLUMN apps.secret_created_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.apps.secret_created_at IS 'Time when the app secret was made.';


--
-- Name: COLUMN apps.former_secret; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.apps.former_secret IS 'App secret before the present one, which is still valid. Encrypted as app_secret. Null before the first rotation.';


--
-- Name: COLUMN apps.former_secret_created_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.apps.former_secret_created_at IS 'Time when that app secret was made.';


--
-- Name: COLUMN apps.exchanges_per_second; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.apps.exchanges_per_second IS 'Limit of this app (contract 7.2). Null takes the setting; 0 is no limit.';


--
-- Name: COLUMN apps.reads_per_second; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.apps.reads_per_second IS 'Limit of this app (contract 7.2). Null takes the setting; 0 is no limit.';


--
-- Name: COLUMN apps.reports_per_second; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.apps.reports_per_second IS 'Limit of this app (contract 7.2). Null takes the setting; 0 is no limit.';


--
-- Name: COLUMN apps.uploads_per_second; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.apps.uploads_per_second IS 'Limit of this app (contract 7.2). Null takes the setting; 0 is no limit.';


--
-- Name: COLUMN apps.tokens_per_second; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.apps.tokens_per_second IS 'Limit of this app (contract 7.2). Null takes the setting; 0 is no limit.';


--
-- Name: COLUMN apps.logins_per_second; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.apps.logins_per_second IS 'Limit of this app (contract 7.2). Null takes the setting; 0 is no limit.';


--
-- Name: COLUMN apps.image_bytes_per_day; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.apps.image_bytes_per_day IS 'Quota of this app (contract 7.3). Null takes the setting.';


--
-- Name: COLUMN apps.image_bytes_max; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.apps.image_bytes_max IS 'Quota of this app (contract 7.3). Null takes the setting.';


--
-- Name: COLUMN apps.images_per_day; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.apps.images_per_day IS 'Quota of this app (contract 7.3). Null takes the setting.';


--
-- Name: COLUMN apps.images_max; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.apps.images_max IS 'Quota of this app (contract 7.3). Null takes the setting.';


--
-- Name: COLUMN apps.created_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.apps.created_at IS 'Time when the app was created.';


--
-- Name: archived_entries; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.archived_entries (
    wallet_no bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    free_change bigint NOT NULL,
    charge_change bigint NOT NULL,
    seq bigint,
    free_balance bigint,
    charge_balance bigint,
    remaining bigint,
    app_no integer NOT NULL,
    pay_priority smallint,
    kind text NOT NULL COLLATE pg_catalog."C",
    reference text NOT NULL COLLATE pg_catalog."C",
    item_id bytea,
    zone_id text,
    remark text,
    of_biz_no text COLLATE pg_catalog."C",
    CONSTRAINT archived_entries_cancel_names_exchange CHECK ((((kind = 'cancel'::text) = (of_biz_no IS NOT NULL)) AND ((of_biz_no IS NULL) = (remaining IS NULL)))),
    CONSTRAINT archived_entries_closed_is_no_entry CHECK (((kind = 'closed'::text) = (seq IS NULL))),
    CONSTRAINT archived_entries_kind_known CHECK ((kind = ANY (ARRAY['exchange'::text, 'present'::text, 'cancel'::text, 'closed'::text, 'credit'::text, 'debit'::text])))
);


--
-- Name: TABLE archived_entries; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.archived_entries IS 'What stays of the rows of ledger_entries that were archived: the number, and what answers to a later call need. A biz_no or ref still takes effect at most once.';


--
-- Name: COLUMN archived_entries.wallet_no; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archived_entries.wallet_no IS 'The wallet.';


--
-- Name: COLUMN archived_entries.at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archived_entries.at IS 'Time of the entry.';


--
-- Name: COLUMN archived_entries.free_change; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archived_entries.free_change IS 'Change of the gifted purse.';


--
-- Name: COLUMN archived_entries.charge_change; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archived_entries.charge_change IS 'Change of the charged purse.';


--
-- Name: COLUMN archived_entries.seq; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archived_entries.seq IS 'Sequence number of the entry in its wallet. Null for a closed biz_no.';


--
-- Name: COLUMN archived_entries.free_balance; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archived_entries.free_balance IS 'Gifted currency after an operator''s entry, which is replayed for ever. Null for others.';


--
-- Name: COLUMN archived_entries.charge_balance; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archived_entries.charge_balance IS 'Charged currency after an operator''s entry. Null for others.';


--
-- Name: COLUMN archived_entries.remaining; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archived_entries.remaining IS 'What could still be given back after this cancel. Null for other kinds.';


--
-- Name: COLUMN archived_entries.app_no; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archived_entries.app_no IS 'The app.';


--
-- Name: COLUMN archived_entries.pay_priority; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archived_entries.pay_priority IS 'Effective priority of an exchange. Null for other kinds.';


--
-- Name: COLUMN archived_entries.kind; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archived_entries.kind IS 'A kind of ledger_entries.';


--
-- Name: COLUMN archived_entries.reference; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archived_entries.reference IS 'The biz_no, or an exclamation mark and the ref.';


--
-- Name: COLUMN archived_entries.item_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archived_entries.item_id IS 'What was bought. Null for other kinds than exchange.';


--
-- Name: COLUMN archived_entries.zone_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archived_entries.zone_id IS 'Zone and role, as sent. Null for an operator''s entry.';


--
-- Name: COLUMN archived_entries.remark; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archived_entries.remark IS 'Note of an operator''s entry. Null for others.';


--
-- Name: COLUMN archived_entries.of_biz_no; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archived_entries.of_biz_no IS 'The exchange that a cancel gives back. Null for other kinds.';


--
-- Name: archived_wallets; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.archived_wallets (
    wallet_no bigint NOT NULL,
    seq bigint NOT NULL,
    free_balance bigint NOT NULL,
    charge_balance bigint NOT NULL,
    free_in numeric NOT NULL,
    charge_in numeric NOT NULL,
    first_at timestamp with time zone NOT NULL,
    last_at timestamp with time zone NOT NULL,
    app_no integer NOT NULL,
    archive_no integer NOT NULL,
    chain_hash bytea NOT NULL,
    CONSTRAINT archived_wallets_chain_hash_length CHECK ((octet_length(chain_hash) = 32)),
    CONSTRAINT archived_wallets_charge_balance_not_negative CHECK ((charge_balance >= 0)),
    CONSTRAINT archived_wallets_free_balance_not_negative CHECK ((free_balance >= 0)),
    CONSTRAINT archived_wallets_seq_positive CHECK ((seq >= 1))
);


--
-- Name: TABLE archived_wallets; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.archived_wallets IS 'The state of a wallet after its last entry in an archive. The ledger goes on from the newest one.';


--
-- Name: COLUMN archived_wallets.wallet_no; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archived_wallets.wallet_no IS 'The wallet.';


--
-- Name: COLUMN archived_wallets.seq; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archived_wallets.seq IS 'Sequence number of that entry.';


--
-- Name: COLUMN archived_wallets.free_balance; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archived_wallets.free_balance IS 'Gifted currency after it.';


--
-- Name: COLUMN archived_wallets.charge_balance; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archived_wallets.charge_balance IS 'Charged currency after it.';


--
-- Name: COLUMN archived_wallets.free_in; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archived_wallets.free_in IS 'Gifted currency that came in, from the first entry of the wallet to this one.';


--
-- Name: COLUMN archived_wallets.charge_in; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archived_wallets.charge_in IS 'Charged currency that came in, from the first entry of the wallet to this one.';


--
-- Name: COLUMN archived_wallets.first_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archived_wallets.first_at IS 'Time of the first entry of the wallet.';


--
-- Name: COLUMN archived_wallets.last_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archived_wallets.last_at IS 'Time of that entry.';


--
-- Name: COLUMN archived_wallets.app_no; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archived_wallets.app_no IS 'The app.';


--
-- Name: COLUMN archived_wallets.archive_no; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archived_wallets.archive_no IS 'The archive.';


--
-- Name: COLUMN archived_wallets.chain_hash; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archived_wallets.chain_hash IS 'Hash of that entry.';


--
-- Name: archived_hashes; Type: VIEW; Schema: public; Owner: -
--

CREATE VIEW public.archived_hashes AS
 SELECT e.app_no,
    e.wallet_no,
    (hash_record_extended(ROW(e.app_no, e.reference, e.wallet_no, e.seq, e.kind, e.at, e.free_change, e.charge_change, e.free_balance, e.charge_balance, e.remaining, e.pay_priority, e.item_id, e.zone_id, e.remark, e.of_biz_no), (0)::bigint))::numeric AS hash,
    ( SELECT min(w.archive_no) AS min
           FROM public.archived_wallets w
          WHERE ((w.app_no = e.app_no) AND (w.wallet_no = e.wallet_no) AND (w.seq >= e.seq))) AS archive_no
   FROM public.archived_entries e;


--
-- Name: VIEW archived_hashes; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON VIEW public.archived_hashes IS 'The hash of each archived row, and the archive that has it. A closed number has no archive here.';


--
-- Name: archived_digests; Type: VIEW; Schema: public; Owner: -
--

CREATE VIEW public.archived_digests AS
 SELECT archived_hashes.app_no,
    sum(archived_hashes.hash) AS digest
   FROM public.archived_hashes
  GROUP BY archived_hashes.app_no;


--
-- Name: VIEW archived_digests; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON VIEW public.archived_digests IS 'Sum of the hashes of all archived rows of each app.';


--
-- Name: archived_standings; Type: VIEW; Schema: public; Owner: -
--

CREATE VIEW public.archived_standings AS
 SELECT DISTINCT ON (archived_wallets.app_no, archived_wallets.wallet_no) archived_wallets.app_no,
    archived_wallets.wallet_no,
    archived_wallets.seq,
    archived_wallets.free_balance,
    archived_wallets.charge_balance,
    archived_wallets.chain_hash
   FROM public.archived_wallets
  ORDER BY archived_wallets.app_no, archived_wallets.wallet_no, archived_wallets.archive_no DESC;


--
-- Name: VIEW archived_standings; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON VIEW public.archived_standings IS 'The newest state of each wallet in an archive. Its ledger goes on from there.';


--
-- Name: archives; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.archives (
    app_id text NOT NULL,
    archive_no integer NOT NULL,
    before timestamp with time zone NOT NULL,
    entries bigint NOT NULL,
    state text NOT NULL,
    file text NOT NULL,
    sha256 bytea NOT NULL,
    digest numeric,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT archives_digest_of_kept CHECK (((state <> 'kept'::text) OR (digest IS NOT NULL))),
    CONSTRAINT archives_entries_positive CHECK ((entries >= 1)),
    CONSTRAINT archives_sha256_length CHECK ((octet_length(sha256) = 32)),
    CONSTRAINT archives_state_known CHECK ((state = ANY (ARRAY['moving'::text, 'kept'::text, 'restoring'::text])))
);


--
-- Name: TABLE archives; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.archives IS 'The files that hold archived entries. A restore removes the row at its end.';


--
-- Name: COLUMN archives.app_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archives.app_id IS 'The app.';


--
-- Name: COLUMN archives.archive_no; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archives.archive_no IS '1 for the first archive of the app. Each later archive adds one.';


--
-- Name: COLUMN archives.before; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archives.before IS 'The archive has entries before this time.';


--
-- Name: COLUMN archives.entries; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archives.entries IS 'Number of rows in the file: ledger entries and closed numbers.';


--
-- Name: COLUMN archives.state; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archives.state IS 'moving while the entries leave the ledger, kept when all have left, restoring while they go back. A transaction that moves entries first locks this row and reads the state.';


--
-- Name: COLUMN archives.file; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archives.file IS 'Path of the file when it was written.';


--
-- Name: COLUMN archives.sha256; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archives.sha256 IS 'SHA-256 of the file.';


--
-- Name: COLUMN archives.digest; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archives.digest IS 'Sum of the hashes of all rows of the app in archived_entries when this archive was kept. Null before.';


--
-- Name: COLUMN archives.created_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.archives.created_at IS 'Database time when the entries began to move.';


--
-- Name: audits; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.audits (
    scope text NOT NULL,
    started_at timestamp with time zone NOT NULL,
    id bigint NOT NULL,
    finished_at timestamp with time zone NOT NULL,
    entries bigint NOT NULL,
    differences bigint NOT NULL,
    program_version text NOT NULL,
    CONSTRAINT audits_counts_not_negative CHECK (((entries >= 0) AND (differences >= 0))),
    CONSTRAINT audits_scope_known CHECK ((scope = ANY (ARRAY['full'::text, 'since'::text])))
);


--
-- Name: TABLE audits; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.audits IS 'Result of each audit that was completed. The audit writes the row. A row is never updated and never deleted.';


--
-- Name: COLUMN audits.scope; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.audits.scope IS 'full for an audit of everything, since for an audit from a checkpoint.';


--
-- Name: COLUMN audits.started_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.audits.started_at IS 'Database time of the snapshot that was audited.';


--
-- Name: COLUMN audits.id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.audits.id IS 'Random number from the program. It distinguishes audits of the same time.';


--
-- Name: COLUMN audits.finished_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.audits.finished_at IS 'Database time when this row was written.';


--
-- Name: COLUMN audits.entries; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.audits.entries IS 'Number of ledger entries that were checked.';


--
-- Name: COLUMN audits.differences; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.audits.differences IS 'Number of differences. 0 is a clean audit.';


--
-- Name: COLUMN audits.program_version; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.audits.program_version IS 'Version of the program.';


--
-- Name: items; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.items (
    item_id bytea NOT NULL,
    app_no integer NOT NULL,
    product_name text NOT NULL,
    product_info text NOT NULL,
    product_desc text NOT NULL
);


--
-- Name: TABLE items; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.items IS 'The texts that say what an exchange bought. Most exchanges buy what others bought before, so each text is stored once. A row is never updated and never deleted.';


--
-- Name: COLUMN items.item_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.items.item_id IS 'The first 128 bits of SHA-256 over the three texts. ItemId of the crate domain describes the encoding.';


--
-- Name: COLUMN items.app_no; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.items.app_no IS 'The app.';


--
-- Name: COLUMN items.product_name; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.items.product_name IS 'Name of the item, as sent.';


--
-- Name: COLUMN items.product_info; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.items.product_info IS 'JSON text of the items, as sent.';


--
-- Name: COLUMN items.product_desc; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.items.product_desc IS 'Remark, as sent.';


--
-- Name: ledger_entries; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.ledger_entries (
    wallet_no bigint NOT NULL,
    seq bigint,
    at timestamp with time zone NOT NULL,
    free_change bigint NOT NULL,
    charge_change bigint NOT NULL,
    free_balance bigint NOT NULL,
    charge_balance bigint NOT NULL,
    ts bigint,
    remaining bigint,
    app_no integer NOT NULL,
    pay_priority smallint,
    kind text NOT NULL COLLATE pg_catalog."C",
    reference text NOT NULL COLLATE pg_catalog."C",
    chain_hash bytea,
    item_id bytea,
    zone_id text,
    os text,
    user_ip text,
    extension text,
    remark text,
    of_biz_no text COLLATE pg_catalog."C",
    CONSTRAINT ledger_entries_cancel_names_exchange CHECK ((((kind = 'cancel'::text) = (of_biz_no IS NOT NULL)) AND ((of_biz_no IS NULL) = (remaining IS NULL)))),
    CONSTRAINT ledger_entries_chain_hash_length CHECK ((octet_length(chain_hash) = 32)),
    CONSTRAINT ledger_entries_charge_balance_not_negative CHECK ((charge_balance >= 0)),
    CONSTRAINT ledger_entries_closed_is_no_entry CHECK ((((kind = 'closed'::text) = (seq IS NULL)) AND ((seq IS NULL) = (chain_hash IS NULL)))),
    CONSTRAINT ledger_entries_free_balance_not_negative CHECK ((free_balance >= 0)),
    CONSTRAINT ledger_entries_kind_known CHECK ((kind = ANY (ARRAY['exchange'::text, 'present'::text, 'cancel'::text, 'closed'::text, 'credit'::text, 'debit'::text]))),
    CONSTRAINT ledger_entries_remaining_not_negative CHECK ((remaining >= 0)),
    CONSTRAINT ledger_entries_seq_positive CHECK ((seq >= 1))
);


--
-- Name: TABLE ledger_entries; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.ledger_entries IS 'Every change of every wallet, without gaps, and every closed biz_no. A row is ledger entry and idempotency record in one. It only leaves for archived_entries. Nothing updates it but the erasure of a player, which removes texts (contract 13.7). So a biz_no or ref takes effect at most once (contract 3.3.3 and 8.3.3).';


--
-- Name: COLUMN ledger_entries.wallet_no; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.ledger_entries.wallet_no IS 'The wallet. The columns with eight bytes stand first, so that no space is lost between columns.';


--
-- Name: COLUMN ledger_entries.seq; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.ledger_entries.seq IS '1 for the first entry of a wallet. Each later entry adds one. Null for a closed biz_no, which is no ledger entry.';


--
-- Name: COLUMN ledger_entries.at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.ledger_entries.at IS 'Database time of the statement that read the wallet for this change. A biz_no is replayed for 48 hours from here.';


--
-- Name: COLUMN ledger_entries.free_change; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.ledger_entries.free_change IS 'Change of the gifted purse. A deduction is negative.';


--
-- Name: COLUMN ledger_entries.charge_change; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.ledger_entries.charge_change IS 'Change of the charged purse. A deduction is negative.';


--
-- Name: COLUMN ledger_entries.free_balance; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.ledger_entries.free_balance IS 'Gifted currency after this entry. 0 for a closed biz_no.';


--
-- Name: COLUMN ledger_entries.charge_balance; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.ledger_entries.charge_balance IS 'Charged currency after this entry. 0 for a closed biz_no.';


--
-- Name: COLUMN ledger_entries.ts; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.ledger_entries.ts IS 'Time of the request in milliseconds, as sent with the first success. Null for an operator''s entry.';


--
-- Name: COLUMN ledger_entries.remaining; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.ledger_entries.remaining IS 'What can still be given back of the exchange after this cancel. Null for other kinds.';


--
-- Name: COLUMN ledger_entries.app_no; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.ledger_entries.app_no IS 'The app.';


--
-- Name: COLUMN ledger_entries.pay_priority; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.ledger_entries.pay_priority IS 'Effective priority of an exchange: 0 charged first, 1 gifted first. Null for other kinds.';


--
-- Name: COLUMN ledger_entries.kind; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.ledger_entries.kind IS 'exchange, present, cancel, closed, credit or debit.';


--
-- Name: COLUMN ledger_entries.reference; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.ledger_entries.reference IS 'The biz_no of a game. Of an operator''s entry: an exclamation mark and the ref, so that the two namespaces never meet.';


--
-- Name: COLUMN ledger_entries.chain_hash; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.ledger_entries.chain_hash IS 'SHA-256 over the hash of the entry before and over this entry. LedgerEntry::chain_hash of the crate domain describes the encoding. Null for a closed biz_no.';


--
-- Name: COLUMN ledger_entries.item_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.ledger_entries.item_id IS 'What was bought: a row of items. Null for other kinds than exchange.';


--
-- Name: COLUMN ledger_entries.zone_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.ledger_entries.zone_id IS 'Zone and role, as sent. Null for an operator''s entry.';


--
-- Name: COLUMN ledger_entries.os; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.ledger_entries.os IS 'Platform, as sent with the first success. Null for an operator''s entry.';


--
-- Name: COLUMN ledger_entries.user_ip; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.ledger_entries.user_ip IS 'Address of the player, as sent with the first success. It is never logged. Null for an operator''s entry.';


--
-- Name: COLUMN ledger_entries.extension; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.ledger_entries.extension IS 'Text of the developer, as sent. Empty when absent. Null for an operator''s entry.';


--
-- Name: COLUMN ledger_entries.remark; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.ledger_entries.remark IS 'Remark of a present or a cancel, as sent, or note of the operator. Null for an exchange.';


--
-- Name: COLUMN ledger_entries.of_biz_no; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.ledger_entries.of_biz_no IS 'The exchange that a cancel gives back. Null for other kinds.';


--
-- Name: wallets; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.wallets (
    app_no integer NOT NULL,
    wallet_no bigint NOT NULL,
    open_id text NOT NULL COLLATE pg_catalog."C",
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    free_balance bigint DEFAULT 0 NOT NULL,
    charge_balance bigint DEFAULT 0 NOT NULL,
    entry_count bigint DEFAULT 0 NOT NULL,
    chain_hash bytea DEFAULT '\x0000000000000000000000000000000000000000000000000000000000000000'::bytea NOT NULL,
    frozen_until timestamp with time zone,
    CONSTRAINT wallets_charge_balance_not_negative CHECK ((charge_balance >= 0)),
    CONSTRAINT wallets_entry_count_not_negative CHECK ((entry_count >= 0)),
    CONSTRAINT wallets_free_balance_not_negative CHECK ((free_balance >= 0))
)
WITH (fillfactor='70');


--
-- Name: TABLE wallets; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.wallets IS 'Present balances of a player. A row here makes the open_id known to its app. The free space in each page keeps balance updates away from the indexes.';


--
-- Name: COLUMN wallets.app_no; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.wallets.app_no IS 'The app.';


--
-- Name: COLUMN wallets.wallet_no; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.wallets.wallet_no IS 'Number of the wallet in its app. It is random, so that no counter is shared.';


--
-- Name: COLUMN wallets.open_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.wallets.open_id IS 'The player: 1 to 64 of 0-9A-Za-z_-. A pseudonym once the player is erased (contract 13.7). In the collation of the bytes, all open_ids with the same start are one range.';


--
-- Name: COLUMN wallets.created_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.wallets.created_at IS 'Time when the player became known.';


--
-- Name: COLUMN wallets.free_balance; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.wallets.free_balance IS 'Gifted currency.';


--
-- Name: COLUMN wallets.charge_balance; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.wallets.charge_balance IS 'Charged currency.';


--
-- Name: COLUMN wallets.entry_count; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.wallets.entry_count IS 'Sequence number of the last ledger entry. 0 before the first.';


--
-- Name: COLUMN wallets.chain_hash; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.wallets.chain_hash IS 'Hash of the last ledger entry. 32 zero bytes before the first.';


--
-- Name: COLUMN wallets.frozen_until; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.wallets.frozen_until IS 'Until then no request of a game changes the purses: infinity without an end. NULL: the wallet is not frozen.';


--
-- Name: bill_lines; Type: VIEW; Schema: public; Owner: -
--

CREATE VIEW public.bill_lines AS
 SELECT e.app_no,
    e.wallet_no,
    e.at,
    w.open_id,
    e.seq,
    e.kind,
        CASE
            WHEN (e.reference !~~ '!%'::text) THEN e.reference
            ELSE NULL::text
        END AS biz_no,
        CASE
            WHEN (e.reference ~~ '!%'::text) THEN substr(e.reference, 2)
            ELSE NULL::text
        END AS ref,
    e.free_change,
    e.charge_change,
    e.free_balance,
    e.charge_balance,
    e.zone_id,
    i.product_name
   FROM ((( SELECT ledger_entries.app_no,
            ledger_entries.wallet_no,
            ledger_entries.at,
            ledger_entries.seq,
            ledger_entries.kind,
            ledger_entries.reference,
            ledger_entries.free_change,
            ledger_entries.charge_change,
            ledger_entries.free_balance,
            ledger_entries.charge_balance,
            ledger_entries.zone_id,
            ledger_entries.item_id
           FROM public.ledger_entries
          WHERE (ledger_entries.seq IS NOT NULL)
        UNION ALL
         SELECT archived_entries.app_no,
            archived_entries.wallet_no,
            archived_entries.at,
            archived_entries.seq,
            archived_entries.kind,
            archived_entries.reference,
            archived_entries.free_change,
            archived_entries.charge_change,
            (sum(archived_entries.free_change) OVER earlier)::bigint AS sum,
            (sum(archived_entries.charge_change) OVER earlier)::bigint AS sum,
            archived_entries.zone_id,
            archived_entries.item_id
           FROM public.archived_entries
          WHERE (archived_entries.seq IS NOT NULL)
          WINDOW earlier AS (PARTITION BY archived_entries.app_no, archived_entries.wallet_no ORDER BY archived_entries.seq)) e
     LEFT JOIN public.wallets w ON (((w.app_no = e.app_no) AND (w.wallet_no = e.wallet_no))))
     LEFT JOIN public.items i ON (((i.app_no = e.app_no) AND (i.item_id = e.item_id))));


--
-- Name: VIEW bill_lines; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON VIEW public.bill_lines IS 'Every ledger entry as the bill shows it, archived ones too. The balances of an archived entry are the sums from the first entry of its wallet, because archives take entries from the first on.';


--
-- Name: closed_periods; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.closed_periods (
    app_id text NOT NULL,
    month text NOT NULL,
    time_zone text NOT NULL,
    sha256 bytea NOT NULL,
    statement text NOT NULL,
    closed_by_kind text NOT NULL,
    closed_by text NOT NULL,
    closed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    compared_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    differs boolean DEFAULT false NOT NULL,
    CONSTRAINT closed_periods_sha256_length CHECK ((octet_length(sha256) = 32))
);


--
-- Name: TABLE closed_periods; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.closed_periods IS 'Months whose books an operator closed (contract 13.3.9). The first close stands: only compared_at and differs of a row change, and no row is deleted.';


--
-- Name: COLUMN closed_periods.app_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.closed_periods.app_id IS 'The app.';


--
-- Name: COLUMN closed_periods.month; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.closed_periods.month IS 'The month, such as 2026-10.';


--
-- Name: COLUMN closed_periods.time_zone; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.closed_periods.time_zone IS 'IANA name of the time zone that gives the month its limits.';


--
-- Name: COLUMN closed_periods.sha256; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.closed_periods.sha256 IS 'SHA-256 of the statement before its last line, as the statement tells it.';


--
-- Name: COLUMN closed_periods.statement; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.closed_periods.statement IS 'The statement as text, with its last line.';


--
-- Name: COLUMN closed_periods.closed_by_kind; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.closed_periods.closed_by_kind IS 'command_line, console or api_key: where it was closed.';


--
-- Name: COLUMN closed_periods.closed_by; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.closed_periods.closed_by IS 'Name of the operator who closed it.';


--
-- Name: COLUMN closed_periods.closed_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.closed_periods.closed_at IS 'When it was closed.';


--
-- Name: COLUMN closed_periods.compared_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.closed_periods.compared_at IS 'When a server last began to compare the statement with one of that moment. At first the time of the close.';


--
-- Name: COLUMN closed_periods.differs; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.closed_periods.differs IS 'Whether that comparison found another statement.';


--
-- Name: console_attempts; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.console_attempts (
    name text NOT NULL,
    address text NOT NULL,
    failed_attempts integer NOT NULL,
    locked_until timestamp with time zone,
    attempted_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: TABLE console_attempts; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.console_attempts IS 'Sign-in attempts since the last success, by user and address. A row is removed by a success, by an unlock, and a day after its last attempt.';


--
-- Name: COLUMN console_attempts.name; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_attempts.name IS 'The user. An attempt with an unknown name has no row.';


--
-- Name: COLUMN console_attempts.address; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_attempts.address IS 'Address of the client: an IPv4 address, or an IPv6 network of 64 bits.';


--
-- Name: COLUMN console_attempts.failed_attempts; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_attempts.failed_attempts IS 'Attempts since the last success. An attempt counts before its password is verified.';


--
-- Name: COLUMN console_attempts.locked_until; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_attempts.locked_until IS 'Database time until which every attempt of this address with this name is refused.';


--
-- Name: COLUMN console_attempts.attempted_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_attempts.attempted_at IS 'Database time of the last attempt.';


--
-- Name: console_recovery_codes; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.console_recovery_codes (
    name text NOT NULL,
    code_sha256 bytea NOT NULL
);


--
-- Name: TABLE console_recovery_codes; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.console_recovery_codes IS 'Codes that take the place of the second factor. The use of a code removes its row.';


--
-- Name: COLUMN console_recovery_codes.name; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_recovery_codes.name IS 'The user.';


--
-- Name: COLUMN console_recovery_codes.code_sha256; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_recovery_codes.code_sha256 IS 'SHA-256 of the code, which has 80 random bits.';


--
-- Name: console_requests; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.console_requests (
    app_id text NOT NULL,
    ref text NOT NULL,
    kind text NOT NULL,
    open_id text NOT NULL,
    free bigint NOT NULL,
    charge bigint NOT NULL,
    create_wallet boolean NOT NULL,
    of_biz_no text,
    amount bigint,
    reason text NOT NULL,
    asked_by text NOT NULL,
    asked_at timestamp with time zone DEFAULT now() NOT NULL,
    state text DEFAULT 'waiting'::text NOT NULL,
    ended_by text,
    ended_at timestamp with time zone,
    give_back_max bigint,
    account text,
    role text,
    apps text[],
    secret text,
    CONSTRAINT console_requests_account_named CHECK ((((kind = ANY (ARRAY['credit'::text, 'debit'::text, 'cancel'::text])) = (account IS NULL)) AND ((app_id = ''::text) = (account IS NOT NULL)))),
    CONSTRAINT console_requests_amounts_not_negative CHECK (((free >= 0) AND (charge >= 0) AND (amount >= 1))),
    CONSTRAINT console_requests_cancel_names_exchange CHECK ((((kind = 'cancel'::text) = (of_biz_no IS NOT NULL)) AND ((of_biz_no IS NULL) = (amount IS NULL)))),
    CONSTRAINT console_requests_end_told CHECK ((((state = 'waiting'::text) = (ended_by IS NULL)) AND ((ended_by IS NULL) = (ended_at IS NULL)))),
    CONSTRAINT console_requests_kind_known CHECK ((kind = ANY (ARRAY['credit'::text, 'debit'::text, 'cancel'::text, 'add_user'::text, 'set_rights'::text, 'reset_second_factor'::text, 'create_key'::text]))),
    CONSTRAINT console_requests_rights_told CHECK ((((kind = ANY (ARRAY['add_user'::text, 'set_rights'::text, 'create_key'::text])) = (role IS NOT NULL)) AND ((role IS NULL) = (apps IS NULL)))),
    CONSTRAINT console_requests_role_known CHECK ((role = ANY (ARRAY['viewer'::text, 'support'::text, 'finance'::text, 'developer'::text, 'admin'::text]))),
    CONSTRAINT console_requests_second_person CHECK (((state <> 'confirmed'::text) OR (ended_by <> asked_by))),
    CONSTRAINT console_requests_state_known CHECK ((state = ANY (ARRAY['waiting'::text, 'confirmed'::text, 'refused'::text])))
);


--
-- Name: TABLE console_requests; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.console_requests IS 'Large changes of wallets, and changes of users and API keys, that one user of the console asked for and an admin confirms or refuses, who is somebody else (contract 8.6.40 and 8.6.44). A request that waits for 7 days has ended. A row is never deleted, so a ref is asked for once.';


--
-- Name: COLUMN console_requests.app_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_requests.app_id IS 'The app. Empty for a change of a user or an API key.';


--
-- Name: COLUMN console_requests.ref; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_requests.ref IS 'Ref of the change.';


--
-- Name: COLUMN console_requests.kind; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_requests.kind IS 'credit, debit or cancel, as in the ledger; or add_user, set_rights, reset_second_factor, or create_key.';


--
-- Name: COLUMN console_requests.open_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_requests.open_id IS 'The player. Empty for a change of a user or an API key.';


--
-- Name: COLUMN console_requests.free; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_requests.free IS 'Gifted currency to add or to take. 0 for a cancel.';


--
-- Name: COLUMN console_requests.charge; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_requests.charge IS 'Charged currency to add or to take. 0 for a cancel.';


--
-- Name: COLUMN console_requests.create_wallet; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_requests.create_wallet IS 'Whether a credit makes the player known.';


--
-- Name: COLUMN console_requests.of_biz_no; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_requests.of_biz_no IS 'The exchange that a cancel gives back. Null for other kinds.';


--
-- Name: COLUMN console_requests.amount; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_requests.amount IS 'How much of it. Null for other kinds.';


--
-- Name: COLUMN console_requests.reason; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_requests.reason IS 'Reason from the user who asked.';


--
-- Name: COLUMN console_requests.asked_by; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_requests.asked_by IS 'User of the console who asked.';


--
-- Name: COLUMN console_requests.asked_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_requests.asked_at IS 'Database time.';


--
-- Name: COLUMN console_requests.state; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_requests.state IS 'waiting, confirmed in the transaction of the change, or refused.';


--
-- Name: COLUMN console_requests.ended_by; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_requests.ended_by IS 'User who confirmed or refused. Null while it waits.';


--
-- Name: COLUMN console_requests.ended_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_requests.ended_at IS 'Database time. Null while it waits.';


--
-- Name: COLUMN console_requests.give_back_max; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_requests.give_back_max IS 'How many coins of the exchange the role of who asked gives back. Null: all of them, and for other kinds.';


--
-- Name: COLUMN console_requests.account; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_requests.account IS 'Name of the user or the API key. Null for a change of a wallet.';


--
-- Name: COLUMN console_requests.role; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_requests.role IS 'Role of the user or the key after the change. Null for other kinds.';


--
-- Name: COLUMN console_requests.apps; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_requests.apps IS 'Ids of its apps then, in order. Empty: all apps.';


--
-- Name: COLUMN console_requests.secret; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_requests.secret IS 'While the request waits: Argon2id hash of the password of a new user, as a PHC string, or SHA-256 of a new key in hexadecimal.';


--
-- Name: console_sessions; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.console_sessions (
    token_sha256 bytea NOT NULL,
    name text NOT NULL,
    address text DEFAULT ''::text NOT NULL,
    proved_at timestamp with time zone DEFAULT now() NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    used_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: TABLE console_sessions; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.console_sessions IS 'Sessions of the console. A session ends 12 hours after its start, 30 minutes after its last use, at sign-out, and when its user changes.';


--
-- Name: COLUMN console_sessions.token_sha256; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_sessions.token_sha256 IS 'SHA-256 of the 256 random bits that the browser holds.';


--
-- Name: COLUMN console_sessions.name; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_sessions.name IS 'The user.';


--
-- Name: COLUMN console_sessions.address; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_sessions.address IS 'Address of the browser at the sign-in, as in console_attempts.';


--
-- Name: COLUMN console_sessions.proved_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_sessions.proved_at IS 'Database time when the user last typed the password, or proved to the OpenID Connect provider who they are.';


--
-- Name: COLUMN console_sessions.created_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_sessions.created_at IS 'Database time.';


--
-- Name: COLUMN console_sessions.used_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_sessions.used_at IS 'Database time of the last request, to the minute.';


--
-- Name: console_users; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.console_users (
    name text NOT NULL,
    role text NOT NULL,
    apps text[] DEFAULT '{}'::text[] NOT NULL,
    password text NOT NULL,
    totp_secret bytea,
    totp_step bigint DEFAULT 0 NOT NULL,
    oidc_issuer text,
    oidc_subject text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    wrong_codes integer DEFAULT 0 NOT NULL,
    CONSTRAINT console_users_oidc_identity CHECK (((oidc_issuer IS NULL) = (oidc_subject IS NULL))),
    CONSTRAINT console_users_role_known CHECK ((role = ANY (ARRAY['viewer'::text, 'support'::text, 'finance'::text, 'developer'::text, 'admin'::text])))
);


--
-- Name: TABLE console_users; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.console_users IS 'Users of the console.';


--
-- Name: COLUMN console_users.name; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_users.name IS 'Name for the sign-in and in the operator''s log.';


--
-- Name: COLUMN console_users.role; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_users.role IS 'viewer, who changes nothing, support, finance, developer, or admin.';


--
-- Name: COLUMN console_users.apps; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_users.apps IS 'Ids of the apps that the user sees, in order. Empty: all apps.';


--
-- Name: COLUMN console_users.password; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_users.password IS 'Argon2id hash with its salt and parameters, as a PHC string. Empty for a user of an OpenID Connect provider.';


--
-- Name: COLUMN console_users.totp_secret; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_users.totp_secret IS 'Secret of the second factor in base32, encrypted with the master key. Null without a second factor.';


--
-- Name: COLUMN console_users.totp_step; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_users.totp_step IS 'Step of the last code that was used: Unix time in units of 30 seconds. A code of this step or an earlier one is refused.';


--
-- Name: COLUMN console_users.oidc_issuer; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_users.oidc_issuer IS 'OpenID Connect provider that signs the user in. Null for a user with a password.';


--
-- Name: COLUMN console_users.oidc_subject; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_users.oidc_subject IS 'Id of the user at that provider. Null for a user with a password.';


--
-- Name: COLUMN console_users.created_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_users.created_at IS 'Database time.';


--
-- Name: COLUMN console_users.wrong_codes; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.console_users.wrong_codes IS 'Codes of the second factor since the last right one, each counted before it is verified. From 20 on only recovery codes count.';


--
-- Name: deliveries; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.deliveries (
    app_id text NOT NULL,
    receiver_id text NOT NULL,
    event_no bigint NOT NULL,
    event_id text NOT NULL,
    event_at timestamp with time zone NOT NULL,
    type text NOT NULL,
    state text NOT NULL,
    tries integer NOT NULL,
    next_at timestamp with time zone,
    not_before timestamp with time zone,
    last_at timestamp with time zone,
    status smallint,
    error text,
    CONSTRAINT deliveries_state_known CHECK ((state = ANY (ARRAY['waiting'::text, 'failed'::text, 'taken'::text]))),
    CONSTRAINT deliveries_tries_not_negative CHECK ((tries >= 0)),
    CONSTRAINT deliveries_waiting_is_due CHECK (((state = 'waiting'::text) = (next_at IS NOT NULL)))
)
WITH (fillfactor='70');


--
-- Name: TABLE deliveries; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.deliveries IS 'Events that a receiver did not take at their first try, and events that an operator sent again. A row that does not wait is removed after notify.keep.';


--
-- Name: COLUMN deliveries.app_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.deliveries.app_id IS 'The app.';


--
-- Name: COLUMN deliveries.receiver_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.deliveries.receiver_id IS 'The receiver.';


--
-- Name: COLUMN deliveries.event_no; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.deliveries.event_no IS 'Number of the event.';


--
-- Name: COLUMN deliveries.event_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.deliveries.event_id IS 'Id of the event.';


--
-- Name: COLUMN deliveries.event_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.deliveries.event_at IS 'Time of the change.';


--
-- Name: COLUMN deliveries.type; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.deliveries.type IS 'Type of the event.';


--
-- Name: COLUMN deliveries.state; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.deliveries.state IS 'waiting, failed after the last try, or taken.';


--
-- Name: COLUMN deliveries.tries; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.deliveries.tries IS 'Number of tries since the event was sent first, or sent again.';


--
-- Name: COLUMN deliveries.next_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.deliveries.next_at IS 'Time of the next try. Null when there is none.';


--
-- Name: COLUMN deliveries.not_before; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.deliveries.not_before IS 'Time before which the receiver wants no try. Null when it did not ask.';


--
-- Name: COLUMN deliveries.last_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.deliveries.last_at IS 'Time of the last try. Null before the first.';


--
-- Name: COLUMN deliveries.status; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.deliveries.status IS 'HTTP status of the last try. Null when there was no answer.';


--
-- Name: COLUMN deliveries.error; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.deliveries.error IS 'What the last failure was, in words. Null after a success.';


--
-- Name: event_head; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.event_head (
    id smallint NOT NULL,
    last_no bigint NOT NULL,
    removed_no bigint NOT NULL,
    CONSTRAINT event_head_numbers_ordered CHECK (((0 <= removed_no) AND (removed_no <= last_no))),
    CONSTRAINT event_head_single CHECK ((id = 1))
)
WITH (fillfactor='20');


--
-- Name: TABLE event_head; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.event_head IS 'The numbers of events. There is one row. A transaction that gives numbers holds it, so numbers become visible in their order.';


--
-- Name: COLUMN event_head.id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.event_head.id IS '1.';


--
-- Name: COLUMN event_head.last_no; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.event_head.last_no IS 'Number of the newest event. 0 before the first.';


--
-- Name: COLUMN event_head.removed_no; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.event_head.removed_no IS 'The highest number of a removed event. 0 before the first removal.';


--
-- Name: events; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.events (
    app_id text NOT NULL,
    last_no bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    count integer NOT NULL,
    type text NOT NULL,
    row_id bytea NOT NULL,
    keys bytea NOT NULL,
    CONSTRAINT events_count_positive CHECK ((count >= 1))
);


--
-- Name: TABLE events; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.events IS 'Events of the outbox in the order of the feed. A row holds the events of one transaction, app and type. It is removed after notify.keep, unless a receiver still needs it.';


--
-- Name: COLUMN events.app_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.events.app_id IS 'The app.';


--
-- Name: COLUMN events.last_no; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.events.last_no IS 'Number of the last event of this row. Numbers go up by one for each event, through all apps.';


--
-- Name: COLUMN events.at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.events.at IS 'Time of the change.';


--
-- Name: COLUMN events.count; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.events.count IS 'Number of events.';


--
-- Name: COLUMN events.type; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.events.type IS 'Type of the events.';


--
-- Name: COLUMN events.row_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.events.row_id IS 'As in the outbox.';


--
-- Name: COLUMN events.keys; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.events.keys IS 'As in the outbox.';


--
-- Name: exchange_refusals; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.exchange_refusals (
    app_id text NOT NULL,
    biz_no text NOT NULL,
    open_id text NOT NULL,
    code bigint NOT NULL,
    kind text NOT NULL,
    first_at timestamp with time zone NOT NULL,
    last_at timestamp with time zone NOT NULL,
    count bigint NOT NULL,
    request_id text NOT NULL,
    amount bigint,
    product_name text,
    free_balance bigint,
    charge_balance bigint,
    CONSTRAINT exchange_refusals_count_positive CHECK ((count >= 1)),
    CONSTRAINT exchange_refusals_kind_known CHECK ((kind = ANY (ARRAY['exchange'::text, 'present'::text, 'cancel'::text])))
);


--
-- Name: TABLE exchange_refusals; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.exchange_refusals IS 'Refused exchanges, presents and cancels that were properly signed (contract 13.1). A process notes them in memory and writes once a second. What it has not written is lost when it ends. A row is removed 30 days after its last refusal, and when the app has 100,000 newer rows.';


--
-- Name: COLUMN exchange_refusals.app_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.exchange_refusals.app_id IS 'The app.';


--
-- Name: COLUMN exchange_refusals.biz_no; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.exchange_refusals.biz_no IS 'The number, which was not used.';


--
-- Name: COLUMN exchange_refusals.open_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.exchange_refusals.open_id IS 'The player. The app may not know it.';


--
-- Name: COLUMN exchange_refusals.code; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.exchange_refusals.code IS 'Code of the answer.';


--
-- Name: COLUMN exchange_refusals.kind; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.exchange_refusals.kind IS 'What was asked for the last time: exchange, present or cancel.';


--
-- Name: COLUMN exchange_refusals.first_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.exchange_refusals.first_at IS 'Database time of the first refusal.';


--
-- Name: COLUMN exchange_refusals.last_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.exchange_refusals.last_at IS 'Database time of the last refusal.';


--
-- Name: COLUMN exchange_refusals.count; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.exchange_refusals.count IS 'Number of refusals.';


--
-- Name: COLUMN exchange_refusals.request_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.exchange_refusals.request_id IS 'Id of the last request.';


--
-- Name: COLUMN exchange_refusals.amount; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.exchange_refusals.amount IS 'Amount that was asked for the last time. NULL where none came that can be one.';


--
-- Name: COLUMN exchange_refusals.product_name; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.exchange_refusals.product_name IS 'Product of the last time. NULL for a present or a cancel, and where none came that can be one.';


--
-- Name: COLUMN exchange_refusals.free_balance; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.exchange_refusals.free_balance IS 'Gifted purse at the last time. NULL where the refusal came before the till looked at the wallet.';


--
-- Name: COLUMN exchange_refusals.charge_balance; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.exchange_refusals.charge_balance IS 'Charged purse at the last time. NULL with free_balance.';


--
-- Name: exchange_replays; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.exchange_replays (
    app_id text NOT NULL,
    biz_no text NOT NULL,
    replays bigint NOT NULL,
    first_at timestamp with time zone NOT NULL,
    last_at timestamp with time zone NOT NULL,
    CONSTRAINT exchange_replays_positive CHECK ((replays >= 1))
)
WITH (fillfactor='70');


--
-- Name: TABLE exchange_replays; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.exchange_replays IS 'Number of replays of each exchange. A process counts in memory and writes once a second. Counts that it has not written are lost when it ends, and while the database is away. A row is removed 30 days after its last replay.';


--
-- Name: COLUMN exchange_replays.app_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.exchange_replays.app_id IS 'The app.';


--
-- Name: COLUMN exchange_replays.biz_no; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.exchange_replays.biz_no IS 'Order number of the exchange that was replayed.';


--
-- Name: COLUMN exchange_replays.replays; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.exchange_replays.replays IS 'Number of replays. The first success does not count.';


--
-- Name: COLUMN exchange_replays.first_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.exchange_replays.first_at IS 'Database time when the first replay was written, about a second after it.';


--
-- Name: COLUMN exchange_replays.last_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.exchange_replays.last_at IS 'Database time when the last replay was written.';


--
-- Name: health_minutes; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.health_minutes (
    at timestamp with time zone NOT NULL,
    instance text NOT NULL,
    problems text[] NOT NULL,
    seen jsonb NOT NULL
);


--
-- Name: TABLE health_minutes; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.health_minutes IS 'What each instance saw in each minute. A row is removed after 30 days.';


--
-- Name: COLUMN health_minutes.at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.health_minutes.at IS 'Beginning of the minute, by the clock of the instance.';


--
-- Name: COLUMN health_minutes.instance; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.health_minutes.instance IS 'Host and public port of the instance.';


--
-- Name: COLUMN health_minutes.problems; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.health_minutes.problems IS 'What was wrong, as words. Empty when all was well.';


--
-- Name: COLUMN health_minutes.seen; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.health_minutes.seen IS 'The figures of the minute.';


--
-- Name: image_usage; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.image_usage (
    app_id text NOT NULL,
    day date NOT NULL,
    bytes_today bigint NOT NULL,
    bytes bigint NOT NULL,
    images_today bigint NOT NULL,
    images bigint NOT NULL
)
WITH (fillfactor='70');


--
-- Name: TABLE image_usage; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.image_usage IS 'What each app stores. The transaction that keeps an image counts it here, and compares with the quotas.';


--
-- Name: COLUMN image_usage.app_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.image_usage.app_id IS 'The app.';


--
-- Name: COLUMN image_usage.day; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.image_usage.day IS 'Day (UTC) of the last new image, by the database''s clock.';


--
-- Name: COLUMN image_usage.bytes_today; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.image_usage.bytes_today IS 'Bytes of the new images of that day.';


--
-- Name: COLUMN image_usage.bytes; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.image_usage.bytes IS 'Bytes of all images of the app, as images.byte_length has them.';


--
-- Name: COLUMN image_usage.images_today; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.image_usage.images_today IS 'Number of new images of that day.';


--
-- Name: COLUMN image_usage.images; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.image_usage.images IS 'Number of all images of the app.';


--
-- Name: images; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.images (
    app_id text NOT NULL,
    img_id text NOT NULL,
    sha256 bytea NOT NULL,
    format text NOT NULL,
    side integer NOT NULL,
    byte_length integer NOT NULL,
    content_sha256 bytea NOT NULL,
    perceptual_hash bigint,
    blocked_by bytea,
    uploaded_at timestamp with time zone DEFAULT now() NOT NULL,
    is_reported boolean DEFAULT false NOT NULL,
    last_uploaded_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT images_format_known CHECK ((format = ANY (ARRAY['png'::text, 'jpeg'::text]))),
    CONSTRAINT images_side_positive CHECK ((side >= 1))
);


--
-- Name: TABLE images; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.images IS 'Cover images that were accepted.';


--
-- Name: COLUMN images.app_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.images.app_id IS 'The app that uploaded the image. No other app can use it.';


--
-- Name: COLUMN images.img_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.images.img_id IS '48 lower-case hexadecimal characters, random, valid for ever.';


--
-- Name: COLUMN images.sha256; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.images.sha256 IS 'SHA-256 of the picture as it was uploaded, without bytes after its end. The same bytes give the same img_id again.';


--
-- Name: COLUMN images.format; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.images.format IS 'png or jpeg, from the bytes.';


--
-- Name: COLUMN images.side; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.images.side IS 'Width and height in pixels.';


--
-- Name: COLUMN images.byte_length; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.images.byte_length IS 'Number of bytes of the blob.';


--
-- Name: COLUMN images.content_sha256; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.images.content_sha256 IS 'SHA-256 of the blob: the picture without its metadata.';


--
-- Name: COLUMN images.perceptual_hash; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.images.perceptual_hash IS 'Perceptual hash, 64 bits. Null when the picture has too little detail.';


--
-- Name: COLUMN images.blocked_by; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.images.blocked_by IS 'The block that the image falls under: content_sha256 of picture_blocks. Null when the image is not blocked.';


--
-- Name: COLUMN images.uploaded_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.images.uploaded_at IS 'Database time of the first upload.';


--
-- Name: COLUMN images.is_reported; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.images.is_reported IS 'True when an order report has named the image, now or earlier. It never becomes false.';


--
-- Name: COLUMN images.last_uploaded_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.images.last_uploaded_at IS 'Database time of the last upload of the same picture by the app, while no report had named it.';


--
-- Name: key_uses; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.key_uses (
    app_id text NOT NULL,
    kind text NOT NULL,
    key text NOT NULL,
    hour timestamp with time zone NOT NULL,
    uses bigint NOT NULL,
    last_used_at timestamp with time zone NOT NULL,
    CONSTRAINT key_uses_kind_known CHECK ((kind = ANY (ARRAY['pay_key'::text, 'app_secret'::text, 'api_key'::text]))),
    CONSTRAINT key_uses_not_negative CHECK ((uses >= 0))
)
WITH (fillfactor='70');


--
-- Name: TABLE key_uses; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.key_uses IS 'How often each key has proven who calls, by the hour. A process counts in memory and adds its counts every half minute. Counts that it has not written are lost when it is killed. A row is removed after 25 hours, but for the newest of each key.';


--
-- Name: COLUMN key_uses.app_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.key_uses.app_id IS 'The app. Empty for an API key.';


--
-- Name: COLUMN key_uses.kind; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.key_uses.kind IS 'pay_key, app_secret or api_key.';


--
-- Name: COLUMN key_uses.key; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.key_uses.key IS 'Generation of a pay key or an app secret; name of an API key.';


--
-- Name: COLUMN key_uses.hour; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.key_uses.hour IS 'Beginning of the hour (UTC) in which the uses were written.';


--
-- Name: COLUMN key_uses.uses; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.key_uses.uses IS 'Number of uses.';


--
-- Name: COLUMN key_uses.last_used_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.key_uses.last_used_at IS 'Database time when the last of these uses was written.';


--
-- Name: ledger; Type: VIEW; Schema: public; Owner: -
--

CREATE VIEW public.ledger AS
 SELECT a.app_id,
    w.open_id,
    e.seq,
    e.kind,
    ltrim(e.reference, '!'::text) AS reference,
    (e.reference ~~ '!%'::text) AS by_operator,
    e.reference AS entry_reference,
    e.of_biz_no,
    e.remaining,
    e.free_change,
    e.charge_change,
    e.free_balance,
    e.charge_balance,
    e.at,
    e.chain_hash,
    e.ts,
    e.pay_priority,
    e.zone_id,
    e.os,
    e.user_ip,
    e.extension,
    e.remark,
    i.product_name,
    i.product_info,
    i.product_desc,
    e.app_no,
    e.wallet_no
   FROM (((public.ledger_entries e
     JOIN public.apps a ON ((a.app_no = e.app_no)))
     JOIN public.wallets w ON (((w.app_no = e.app_no) AND (w.wallet_no = e.wallet_no))))
     LEFT JOIN public.items i ON (((i.app_no = e.app_no) AND (i.item_id = e.item_id))));


--
-- Name: VIEW ledger; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON VIEW public.ledger IS 'The ledger entries with the ids of apps and players, references as games and operators sent them, and the texts of items.';


--
-- Name: login_codes; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.login_codes (
    app_id text NOT NULL,
    code_hash bytea NOT NULL,
    open_id text NOT NULL,
    union_id text,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT login_codes_code_hash_length CHECK ((octet_length(code_hash) = 32))
);


--
-- Name: TABLE login_codes; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.login_codes IS 'Login codes that were not used (contract 11.3). A row has only the hash of a code. It is removed by the use of the code, or after the code expires.';


--
-- Name: COLUMN login_codes.app_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.login_codes.app_id IS 'The app that the code belongs to.';


--
-- Name: COLUMN login_codes.code_hash; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.login_codes.code_hash IS 'SHA-256 of the code.';


--
-- Name: COLUMN login_codes.open_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.login_codes.open_id IS 'The player who logs in. The player may not be known yet.';


--
-- Name: COLUMN login_codes.union_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.login_codes.union_id IS 'The person behind the player. Null when the operator gave none.';


--
-- Name: COLUMN login_codes.expires_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.login_codes.expires_at IS 'Time when the code expires.';


--
-- Name: master_key_check; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.master_key_check (
    id smallint NOT NULL,
    value bytea NOT NULL,
    CONSTRAINT master_key_check_id_positive CHECK ((id >= 1))
);


--
-- Name: TABLE master_key_check; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.master_key_check IS 'Shows whether a master key belongs to this database. There is one row, and one more for each former key during a rotation.';


--
-- Name: COLUMN master_key_check.id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.master_key_check.id IS '1 for the key that encrypts. A higher number for a former key that some secrets may still need.';


--
-- Name: COLUMN master_key_check.value; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.master_key_check.value IS 'A known text, encrypted with AES-256-GCM under the key.';


--
-- Name: minitill_migration_lock; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.minitill_migration_lock (
    id smallint NOT NULL
);


--
-- Name: numbers; Type: VIEW; Schema: public; Owner: -
--

CREATE VIEW public.numbers AS
 SELECT ledger_entries.app_no,
    ledger_entries.reference,
    ledger_entries.wallet_no,
    ledger_entries.seq,
    ledger_entries.kind,
    ledger_entries.free_change,
    ledger_entries.charge_change,
    ledger_entries.free_balance,
    ledger_entries.charge_balance,
    ledger_entries.remaining,
    ledger_entries.of_biz_no,
    ledger_entries.pay_priority,
    ledger_entries.item_id,
    ledger_entries.zone_id,
    ledger_entries.extension,
    ledger_entries.remark,
    ledger_entries.at,
    false AS is_archived
   FROM public.ledger_entries
UNION ALL
 SELECT archived_entries.app_no,
    archived_entries.reference,
    archived_entries.wallet_no,
    archived_entries.seq,
    archived_entries.kind,
    archived_entries.free_change,
    archived_entries.charge_change,
    COALESCE(archived_entries.free_balance, (0)::bigint) AS free_balance,
    COALESCE(archived_entries.charge_balance, (0)::bigint) AS charge_balance,
    archived_entries.remaining,
    archived_entries.of_biz_no,
    archived_entries.pay_priority,
    archived_entries.item_id,
    archived_entries.zone_id,
    NULL::text AS extension,
    archived_entries.remark,
    archived_entries.at,
    true AS is_archived
   FROM public.archived_entries;


--
-- Name: VIEW numbers; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON VIEW public.numbers IS 'Every number that was ever used, with what decides about its next use.';


--
-- Name: operator_log; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.operator_log (
    app_id text NOT NULL,
    at timestamp with time zone NOT NULL,
    id bigint NOT NULL,
    operator_kind text NOT NULL,
    operator text NOT NULL,
    action text NOT NULL,
    subject text NOT NULL,
    before jsonb,
    after jsonb,
    note text NOT NULL,
    seq bigint NOT NULL,
    chain_hash bytea NOT NULL,
    content_hash bytea NOT NULL,
    salt bytea,
    credits json,
    state jsonb,
    CONSTRAINT operator_log_chain_hash_length CHECK ((octet_length(chain_hash) = 32)),
    CONSTRAINT operator_log_content_hash_length CHECK ((octet_length(content_hash) = 32)),
    CONSTRAINT operator_log_operator_named CHECK ((operator <> ''::text))
);
ALTER TABLE ONLY public.operator_log ALTER COLUMN credits SET STORAGE EXTERNAL;


--
-- Name: TABLE operator_log; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.operator_log IS 'A line for each change by an operator, written in the transaction of the change. A line is never deleted. Only the erasure of a player replaces texts of a line (contract 13.7).';


--
-- Name: COLUMN operator_log.app_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.operator_log.app_id IS 'The app that was changed. Empty for a change that concerns all apps.';


--
-- Name: COLUMN operator_log.at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.operator_log.at IS 'Database time of the line.';


--
-- Name: COLUMN operator_log.id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.operator_log.id IS 'Random number from the program. It distinguishes lines of the same time on a page.';


--
-- Name: COLUMN operator_log.operator_kind; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.operator_log.operator_kind IS 'Face that was used: command_line, console or api_key.';


--
-- Name: COLUMN operator_log.operator; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.operator_log.operator IS 'Name of the operator.';


--
-- Name: COLUMN operator_log.action; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.operator_log.action IS 'Action, such as app.suspend.';


--
-- Name: COLUMN operator_log.subject; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.operator_log.subject IS 'Object of the action: an app, a player, a version, a picture. Never a secret.';


--
-- Name: COLUMN operator_log.before; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.operator_log.before IS 'State before the change. Null where there was none.';


--
-- Name: COLUMN operator_log.after; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.operator_log.after IS 'State after the change. Null where there is none.';


--
-- Name: COLUMN operator_log.note; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.operator_log.note IS 'Reason from the operator. It may be empty.';


--
-- Name: COLUMN operator_log.seq; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.operator_log.seq IS 'Sequence number of the line, from 1.';


--
-- Name: COLUMN operator_log.chain_hash; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.operator_log.chain_hash IS 'SHA-256 of the line and of the hash of the line before it.';


--
-- Name: COLUMN operator_log.content_hash; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.operator_log.content_hash IS 'SHA-256 of the salt and of the texts that the line was written with: subject, before, after, note and credits, and state where there is one. chain_hash covers it in their place.';


--
-- Name: COLUMN operator_log.salt; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.operator_log.salt IS '16 random bytes, so that nobody can guess the texts from content_hash. Null once an erasure has replaced texts; its line has the hash of the new ones.';


--
-- Name: COLUMN operator_log.credits; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.operator_log.credits IS 'Credits of one call, each as [open_id, ref, gifted and charged currency before it, gifted and charged currency after it]. Null for other actions.';


--
-- Name: COLUMN operator_log.state; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.operator_log.state IS 'State of the subject after the change, where the audit compares it: a user, an API key, an app, a receiver or a request. Secrets are digests. Null for other lines, for a subject that is gone, and in lines of former versions.';


--
-- Name: operator_log_head; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.operator_log_head (
    id smallint NOT NULL,
    seq bigint NOT NULL,
    chain_hash bytea NOT NULL,
    CONSTRAINT operator_log_head_chain_hash_length CHECK ((octet_length(chain_hash) = 32)),
    CONSTRAINT operator_log_head_seq_not_negative CHECK ((seq >= 0)),
    CONSTRAINT operator_log_head_single CHECK ((id = 1))
)
WITH (fillfactor='20');


--
-- Name: TABLE operator_log_head; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.operator_log_head IS 'The newest line of the operator''s log. There is one row. Each change by an operator locks it last, so that the lines are numbered without a gap.';


--
-- Name: COLUMN operator_log_head.id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.operator_log_head.id IS '1.';


--
-- Name: COLUMN operator_log_head.seq; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.operator_log_head.seq IS 'Sequence number of the newest line. 0 before the first.';


--
-- Name: COLUMN operator_log_head.chain_hash; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.operator_log_head.chain_hash IS 'Hash of the newest line. 32 zero bytes before the first.';


--
-- Name: order_events; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.order_events (
    app_id text NOT NULL,
    out_biz_order_no text NOT NULL,
    seq bigint NOT NULL,
    order_status smallint NOT NULL,
    report jsonb NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: TABLE order_events; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.order_events IS 'Every report that changed an order.';


--
-- Name: COLUMN order_events.app_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.order_events.app_id IS 'The app.';


--
-- Name: COLUMN order_events.out_biz_order_no; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.order_events.out_biz_order_no IS 'The order.';


--
-- Name: COLUMN order_events.seq; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.order_events.seq IS '1 for the first report of an order. Each report that changes it adds one.';


--
-- Name: COLUMN order_events.order_status; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.order_events.order_status IS 'Status code after this report.';


--
-- Name: COLUMN order_events.report; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.order_events.report IS 'The order after this report.';


--
-- Name: COLUMN order_events.at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.order_events.at IS 'Database time of the report.';


--
-- Name: order_payments; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.order_payments (
    app_id text NOT NULL,
    out_order_no text NOT NULL,
    out_biz_order_no text NOT NULL,
    first_seen_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: TABLE order_payments; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.order_payments IS 'Every payment attempt of every order. A payment pre-order number belongs to one order only (contract 4.5).';


--
-- Name: COLUMN order_payments.app_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.order_payments.app_id IS 'The app.';


--
-- Name: COLUMN order_payments.out_order_no; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.order_payments.out_order_no IS 'Payment pre-order number.';


--
-- Name: COLUMN order_payments.out_biz_order_no; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.order_payments.out_biz_order_no IS 'The order that it belongs to.';


--
-- Name: COLUMN order_payments.first_seen_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.order_payments.first_seen_at IS 'Database time of the first report with this number.';


--
-- Name: orders; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.orders (
    app_id text NOT NULL,
    out_biz_order_no text NOT NULL,
    out_order_no text NOT NULL,
    open_id text NOT NULL,
    order_create_time bigint NOT NULL,
    order_status smallint NOT NULL,
    goods_kind text,
    order_path text NOT NULL,
    product_cover_img_id text NOT NULL,
    order_backup_url text,
    poi_id text,
    product_id text,
    product_catalog_code bigint,
    product_city text,
    event_count bigint NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT orders_goods_kind_known CHECK ((goods_kind = ANY (ARRAY['virtual'::text, 'physical'::text]))),
    CONSTRAINT orders_status_known CHECK ((order_status = ANY (ARRAY[1, 2, 3, 4, 5, 6, 10, 11, 12, 13, 14, 15])))
)
WITH (fillfactor='85');


--
-- Name: TABLE orders; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.orders IS 'Present state of each reported order. The free space in each page keeps updates away from the indexes.';


--
-- Name: COLUMN orders.app_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.orders.app_id IS 'The app.';


--
-- Name: COLUMN orders.out_biz_order_no; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.orders.out_biz_order_no IS 'Order number that the player sees.';


--
-- Name: COLUMN orders.out_order_no; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.orders.out_order_no IS 'Payment pre-order number of the last report.';


--
-- Name: COLUMN orders.open_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.orders.open_id IS 'The player. It does not change.';


--
-- Name: COLUMN orders.order_create_time; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.orders.order_create_time IS 'Time of the order in milliseconds. It does not change.';


--
-- Name: COLUMN orders.order_status; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.orders.order_status IS 'Status code of the last report (contract 4.3).';


--
-- Name: COLUMN orders.goods_kind; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.orders.goods_kind IS 'virtual after a status of 10 or 11, physical after one of 12 to 15. Null before.';


--
-- Name: COLUMN orders.order_path; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.orders.order_path IS 'Path in the app, as sent.';


--
-- Name: COLUMN orders.product_cover_img_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.orders.product_cover_img_id IS 'Cover image.';


--
-- Name: COLUMN orders.order_backup_url; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.orders.order_backup_url IS 'Fallback web link.';


--
-- Name: COLUMN orders.poi_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.orders.poi_id IS 'Point of interest.';


--
-- Name: COLUMN orders.product_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.orders.product_id IS 'Id in the product library.';


--
-- Name: COLUMN orders.product_catalog_code; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.orders.product_catalog_code IS 'Product category code.';


--
-- Name: COLUMN orders.product_city; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.orders.product_city IS 'City of the product.';


--
-- Name: COLUMN orders.event_count; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.orders.event_count IS 'Sequence number of the last event.';


--
-- Name: COLUMN orders.created_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.orders.created_at IS 'Database time of the first report.';


--
-- Name: COLUMN orders.updated_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.orders.updated_at IS 'Database time of the last report that changed the order.';


--
-- Name: outbox; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.outbox (
    app_id text NOT NULL,
    row_id bytea NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    type text NOT NULL,
    count integer NOT NULL,
    keys bytea NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000');


--
-- Name: TABLE outbox; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.outbox IS 'The same for events of orders and images, which lie on another node where an engine spreads the money.';


--
-- Name: COLUMN outbox.app_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.outbox.app_id IS 'The app.';


--
-- Name: COLUMN outbox.row_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.outbox.row_id IS 'As in wallet_outbox.';


--
-- Name: COLUMN outbox.at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.outbox.at IS 'Time of the change.';


--
-- Name: COLUMN outbox.type; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.outbox.type IS 'Type of the events.';


--
-- Name: COLUMN outbox.count; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.outbox.count IS 'Number of events.';


--
-- Name: COLUMN outbox.keys; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.outbox.keys IS 'For each event its report or its image, as EventKeys of the crate domain describes.';


--
-- Name: packages; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.packages (
    app_id text NOT NULL,
    version text NOT NULL,
    pages text[] NOT NULL,
    published_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: TABLE packages; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.packages IS 'Published versions of packages and their pages. The latest published version decides which order_path is accepted.';


--
-- Name: COLUMN packages.app_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.packages.app_id IS 'The app.';


--
-- Name: COLUMN packages.version; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.packages.version IS 'Version of the package. Publishing it again replaces its pages and makes it the latest.';


--
-- Name: COLUMN packages.pages; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.packages.pages IS 'Paths of the pages, without a leading slash.';


--
-- Name: COLUMN packages.published_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.packages.published_at IS 'Time of the last publication.';


--
-- Name: pay_keys; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.pay_keys (
    app_id text NOT NULL,
    generation integer NOT NULL,
    pay_key bytea NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: TABLE pay_keys; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.pay_keys IS 'Keys that sign exchanges. The two highest generations of an app are valid. Older ones are retired; they only help to diagnose a wrong signature of a sandbox app.';


--
-- Name: COLUMN pay_keys.app_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.pay_keys.app_id IS 'The app.';


--
-- Name: COLUMN pay_keys.generation; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.pay_keys.generation IS '1 for the first key. Each rotation adds one.';


--
-- Name: COLUMN pay_keys.pay_key; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.pay_keys.pay_key IS 'The key, encrypted with AES-256-GCM under the master key. The app id is the associated data.';


--
-- Name: COLUMN pay_keys.created_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.pay_keys.created_at IS 'Time when the key was made.';


--
-- Name: picture_blocks; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.picture_blocks (
    content_sha256 bytea NOT NULL,
    reason text NOT NULL,
    perceptual_hashes bigint[] DEFAULT '{}'::bigint[] NOT NULL,
    blocked_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: TABLE picture_blocks; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.picture_blocks IS 'Pictures that the operator has blocked for every app, and their near copies (contract 5.5).';


--
-- Name: COLUMN picture_blocks.content_sha256; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.picture_blocks.content_sha256 IS 'SHA-256 of the blocked blob.';


--
-- Name: COLUMN picture_blocks.reason; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.picture_blocks.reason IS 'Reason, for people.';


--
-- Name: COLUMN picture_blocks.perceptual_hashes; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.picture_blocks.perceptual_hashes IS 'Perceptual hashes of the picture and its crops. Empty when the picture has too little detail.';


--
-- Name: COLUMN picture_blocks.blocked_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.picture_blocks.blocked_at IS 'Database time.';


--
-- Name: picture_objects; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.picture_objects (
    name text NOT NULL,
    stored_in text NOT NULL,
    content_sha256 bytea NOT NULL,
    byte_length integer NOT NULL,
    is_kept boolean DEFAULT false NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT picture_objects_byte_length_positive CHECK ((byte_length >= 1)),
    CONSTRAINT picture_objects_stored_in_known CHECK ((stored_in = ANY (ARRAY['folder'::text, 's3'::text])))
);


--
-- Name: TABLE picture_objects; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.picture_objects IS 'Objects outside the database (contract 5.8). The row exists before the object is written, and is deleted before the object is removed. So an object without a row can be removed.';


--
-- Name: COLUMN picture_objects.name; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.picture_objects.name IS '48 lower-case hexadecimal characters, random. A name is used once.';


--
-- Name: COLUMN picture_objects.stored_in; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.picture_objects.stored_in IS 'folder or s3.';


--
-- Name: COLUMN picture_objects.content_sha256; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.picture_objects.content_sha256 IS 'SHA-256 of the blob.';


--
-- Name: COLUMN picture_objects.byte_length; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.picture_objects.byte_length IS 'Number of bytes of the blob.';


--
-- Name: COLUMN picture_objects.is_kept; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.picture_objects.is_kept IS 'True when the object was written and read back, and images use it. False while it is being written.';


--
-- Name: COLUMN picture_objects.created_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.picture_objects.created_at IS 'Database time. An object that is unfinished after an hour was given up.';


--
-- Name: picture_parts; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.picture_parts (
    content_sha256 bytea NOT NULL,
    part integer NOT NULL,
    bytes bytea NOT NULL,
    CONSTRAINT picture_parts_part_not_negative CHECK ((part >= 0))
);
ALTER TABLE ONLY public.picture_parts ALTER COLUMN bytes SET STORAGE EXTERNAL;


--
-- Name: TABLE picture_parts; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.picture_parts IS 'Blobs in the database, in parts of 256 KiB. PostgreSQL does not compress them, because pictures are compressed already.';


--
-- Name: COLUMN picture_parts.content_sha256; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.picture_parts.content_sha256 IS 'SHA-256 of the blob.';


--
-- Name: COLUMN picture_parts.part; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.picture_parts.part IS 'Position of this part, from 0.';


--
-- Name: COLUMN picture_parts.bytes; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.picture_parts.bytes IS '262,144 bytes. The last part has the rest.';


--
-- Name: picture_stores; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.picture_stores (
    stored_in text NOT NULL,
    id text NOT NULL,
    made_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT picture_stores_stored_in_known CHECK ((stored_in = ANY (ARRAY['folder'::text, 's3'::text])))
);


--
-- Name: TABLE picture_stores; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.picture_stores IS 'The folder and the S3 store that belong to this database. An object there holds the same id. So a wrong mount or prefix, or the store of another Minitill, is detected before anything is written or removed.';


--
-- Name: COLUMN picture_stores.stored_in; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.picture_stores.stored_in IS 'folder or s3.';


--
-- Name: COLUMN picture_stores.id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.picture_stores.id IS '48 lower-case hexadecimal characters, random.';


--
-- Name: COLUMN picture_stores.made_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.picture_stores.made_at IS 'Database time.';


--
-- Name: player_lines; Type: VIEW; Schema: public; Owner: -
--

CREATE VIEW public.player_lines AS
 SELECT operator_log.seq,
    operator_log.at,
    operator_log.id,
    operator_log.operator_kind,
    operator_log.operator,
    operator_log.action,
    operator_log.app_id,
    operator_log.subject,
    operator_log.before,
    operator_log.after,
    operator_log.note
   FROM public.operator_log
  WHERE ((operator_log.action = ANY (ARRAY['wallet.credit'::text, 'wallet.debit'::text, 'wallet.cancel'::text])) OR (operator_log.action ~ '^(login_code|change_request|player)[.]'::text));


--
-- Name: VIEW player_lines; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON VIEW public.player_lines IS 'The lines of the operator''s log whose subject is a player. A version or a picture may have the same text.';


--
-- Name: players; Type: VIEW; Schema: public; Owner: -
--

CREATE VIEW public.players AS
 SELECT a.app_id,
    w.open_id,
    w.free_balance,
    w.charge_balance,
    w.entry_count,
    w.chain_hash,
    w.created_at,
    w.app_no,
    w.wallet_no,
    w.frozen_until
   FROM (public.wallets w
     JOIN public.apps a ON ((a.app_no = w.app_no)));


--
-- Name: VIEW players; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON VIEW public.players IS 'The wallets with the ids of their apps.';


--
-- Name: pois; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.pois (
    app_id text NOT NULL,
    poi_id text NOT NULL,
    registered_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: TABLE pois; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.pois IS 'Points of interest that an order may name.';


--
-- Name: COLUMN pois.app_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.pois.app_id IS 'The app.';


--
-- Name: COLUMN pois.poi_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.pois.poi_id IS 'Id of the point of interest.';


--
-- Name: COLUMN pois.registered_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.pois.registered_at IS 'Time when the operator registered it.';


--
-- Name: preorders; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.preorders (
    app_id text NOT NULL,
    out_order_no text NOT NULL,
    registered_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: TABLE preorders; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.preorders IS 'Payment pre-orders. An app with preorder_check needs them.';


--
-- Name: COLUMN preorders.app_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.preorders.app_id IS 'The app.';


--
-- Name: COLUMN preorders.out_order_no; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.preorders.out_order_no IS 'Number of the payment pre-order.';


--
-- Name: COLUMN preorders.registered_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.preorders.registered_at IS 'Time when the operator registered it.';


--
-- Name: receivers; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.receivers (
    app_id text NOT NULL,
    receiver_id text NOT NULL,
    url text NOT NULL,
    types text[] NOT NULL,
    format text NOT NULL,
    secret bytea NOT NULL,
    secret_made_at timestamp with time zone DEFAULT now() NOT NULL,
    former_secret bytea,
    former_until timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    paused_at timestamp with time zone,
    paused_by text,
    through_no bigint NOT NULL,
    taken bigint DEFAULT 0 NOT NULL,
    failing_since timestamp with time zone,
    last_taken_at timestamp with time zone,
    last_failed_at timestamp with time zone,
    last_status smallint,
    last_error text,
    tries jsonb DEFAULT '[]'::jsonb NOT NULL,
    lease bytea,
    leased_until timestamp with time zone,
    served_until timestamp with time zone,
    CONSTRAINT receivers_format_known CHECK ((format = ANY (ARRAY['standard'::text, 'platform'::text]))),
    CONSTRAINT receivers_former_secret_dated CHECK (((former_secret IS NULL) = (former_until IS NULL))),
    CONSTRAINT receivers_lease_ends CHECK (((lease IS NULL) = (leased_until IS NULL))),
    CONSTRAINT receivers_pause_explained CHECK (((paused_at IS NULL) = (paused_by IS NULL))),
    CONSTRAINT receivers_paused_by_known CHECK ((paused_by = ANY (ARRAY['operator'::text, 'receiver'::text])))
)
WITH (fillfactor='40');


--
-- Name: TABLE receivers; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.receivers IS 'Servers of apps that are told of events.';


--
-- Name: COLUMN receivers.app_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.receivers.app_id IS 'The app.';


--
-- Name: COLUMN receivers.receiver_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.receivers.receiver_id IS 'rcv_ and 16 hexadecimal digits, random.';


--
-- Name: COLUMN receivers.url; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.receivers.url IS 'Where events are sent.';


--
-- Name: COLUMN receivers.types; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.receivers.types IS 'Types of events that it is told of. Empty: all.';


--
-- Name: COLUMN receivers.format; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.receivers.format IS 'standard or platform.';


--
-- Name: COLUMN receivers.secret; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.receivers.secret IS 'Secret that signs, encrypted with AES-256-GCM under the master key. The app id is the associated data.';


--
-- Name: COLUMN receivers.secret_made_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.receivers.secret_made_at IS 'Time when the secret was made.';


--
-- Name: COLUMN receivers.former_secret; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.receivers.former_secret IS 'Secret before the present one, encrypted in the same way. Null before the first rotation.';


--
-- Name: COLUMN receivers.former_until; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.receivers.former_until IS 'Time until which the former secret signs too.';


--
-- Name: COLUMN receivers.created_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.receivers.created_at IS 'Time when the operator added the receiver. It gets the events after it.';


--
-- Name: COLUMN receivers.paused_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.receivers.paused_at IS 'Time of the pause. Null while the receiver is not paused.';


--
-- Name: COLUMN receivers.paused_by; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.receivers.paused_by IS 'operator, or receiver when it answered 410.';


--
-- Name: COLUMN receivers.through_no; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.receivers.through_no IS 'Number of the last event that was tried once. Later events wait for their first try.';


--
-- Name: COLUMN receivers.taken; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.receivers.taken IS 'Number of events that it has taken.';


--
-- Name: COLUMN receivers.failing_since; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.receivers.failing_since IS 'Time of the first failure after the last success. Null while it takes what it gets.';


--
-- Name: COLUMN receivers.last_taken_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.receivers.last_taken_at IS 'Time of the last success.';


--
-- Name: COLUMN receivers.last_failed_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.receivers.last_failed_at IS 'Time of the last failure.';


--
-- Name: COLUMN receivers.last_status; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.receivers.last_status IS 'HTTP status of the last failure. Null when there was no answer.';


--
-- Name: COLUMN receivers.last_error; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.receivers.last_error IS 'What the last failure was, in words.';


--
-- Name: COLUMN receivers.tries; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.receivers.tries IS 'The newest 20 tries, newest first, each with event_id, at, status, error and the beginning of the answer.';


--
-- Name: COLUMN receivers.lease; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.receivers.lease IS 'Random bytes of the instance that sends to this receiver. Null while none does.';


--
-- Name: COLUMN receivers.leased_until; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.receivers.leased_until IS 'Time when another instance may take over.';


--
-- Name: COLUMN receivers.served_until; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.receivers.served_until IS 'Time when an instance has ended its lease last. Null before the first time.';


--
-- Name: sales; Type: VIEW; Schema: public; Owner: -
--

CREATE VIEW public.sales AS
 SELECT ledger_entries.app_no,
    ledger_entries.at,
    ledger_entries.item_id,
    ledger_entries.zone_id,
    1 AS count,
    (- ledger_entries.free_change) AS free_taken,
    (- ledger_entries.charge_change) AS charge_taken,
    (0)::bigint AS free_given_back,
    (0)::bigint AS charge_given_back
   FROM public.ledger_entries
  WHERE (ledger_entries.kind = 'exchange'::text)
UNION ALL
 SELECT archived_entries.app_no,
    archived_entries.at,
    archived_entries.item_id,
    archived_entries.zone_id,
    1 AS count,
    (- archived_entries.free_change) AS free_taken,
    (- archived_entries.charge_change) AS charge_taken,
    0 AS free_given_back,
    0 AS charge_given_back
   FROM public.archived_entries
  WHERE (archived_entries.kind = 'exchange'::text)
UNION ALL
 SELECT c.app_no,
    c.at,
    COALESCE(x.item_id, a.item_id) AS item_id,
    COALESCE(x.zone_id, a.zone_id) AS zone_id,
    0 AS count,
    0 AS free_taken,
    0 AS charge_taken,
    c.free_change AS free_given_back,
    c.charge_change AS charge_given_back
   FROM ((public.ledger_entries c
     LEFT JOIN public.ledger_entries x ON (((x.app_no = c.app_no) AND (x.reference = c.of_biz_no))))
     LEFT JOIN public.archived_entries a ON (((a.app_no = c.app_no) AND (a.reference = c.of_biz_no))))
  WHERE (c.kind = 'cancel'::text)
UNION ALL
 SELECT c.app_no,
    c.at,
    COALESCE(x.item_id, a.item_id) AS item_id,
    COALESCE(x.zone_id, a.zone_id) AS zone_id,
    0 AS count,
    0 AS free_taken,
    0 AS charge_taken,
    c.free_change AS free_given_back,
    c.charge_change AS charge_given_back
   FROM ((public.archived_entries c
     LEFT JOIN public.ledger_entries x ON (((x.app_no = c.app_no) AND (x.reference = c.of_biz_no))))
     LEFT JOIN public.archived_entries a ON (((a.app_no = c.app_no) AND (a.reference = c.of_biz_no))))
  WHERE (c.kind = 'cancel'::text);


--
-- Name: VIEW sales; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON VIEW public.sales IS 'What exchanges took and what cancels gave back, each under the item and the zone of its exchange (contract 13.2).';


--
-- Name: sales_head; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.sales_head (
    id smallint NOT NULL,
    through_no bigint NOT NULL,
    CONSTRAINT sales_head_single CHECK ((id = 1))
)
WITH (fillfactor='20');


--
-- Name: TABLE sales_head; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.sales_head IS 'How far sales_hours has come. There is one row. A transaction that adds to sales_hours holds it.';


--
-- Name: COLUMN sales_head.id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.sales_head.id IS '1.';


--
-- Name: COLUMN sales_head.through_no; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.sales_head.through_no IS 'Number of the last event that is in sales_hours. 0 before the first.';


--
-- Name: sales_hours; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.sales_hours (
    app_no integer NOT NULL,
    cut smallint NOT NULL,
    hour timestamp with time zone NOT NULL,
    product_name text NOT NULL COLLATE pg_catalog."C",
    zone text NOT NULL COLLATE pg_catalog."C",
    count bigint NOT NULL,
    free_taken numeric NOT NULL,
    charge_taken numeric NOT NULL,
    free_given_back numeric NOT NULL,
    charge_given_back numeric NOT NULL,
    CONSTRAINT sales_hours_cut_known CHECK ((cut = ANY (ARRAY[1, 2, 3])))
)
WITH (fillfactor='70');


--
-- Name: TABLE sales_hours; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.sales_hours IS 'Sums of the view sales by the hour (contract 13.2). They have the entries whose events have numbers up to sales_head.';


--
-- Name: COLUMN sales_hours.app_no; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.sales_hours.app_no IS 'The app.';


--
-- Name: COLUMN sales_hours.cut; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.sales_hours.cut IS '1: by zone. 2: by product. 3: by both. Each report reads the smallest of them that has its groups.';


--
-- Name: COLUMN sales_hours.hour; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.sales_hours.hour IS 'Beginning of the hour (UTC).';


--
-- Name: COLUMN sales_hours.product_name; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.sales_hours.product_name IS 'Name of what was bought. Empty in sums of all products.';


--
-- Name: COLUMN sales_hours.zone; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.sales_hours.zone IS 'The zone. Empty in sums of all zones.';


--
-- Name: COLUMN sales_hours.count; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.sales_hours.count IS 'Number of exchanges.';


--
-- Name: COLUMN sales_hours.free_taken; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.sales_hours.free_taken IS 'Gifted currency that exchanges took. Sums may need more than 64 bits.';


--
-- Name: COLUMN sales_hours.charge_taken; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.sales_hours.charge_taken IS 'Charged currency that exchanges took.';


--
-- Name: COLUMN sales_hours.free_given_back; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.sales_hours.free_given_back IS 'Gifted currency that cancels gave back in this hour.';


--
-- Name: COLUMN sales_hours.charge_given_back; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.sales_hours.charge_given_back IS 'Charged currency that cancels gave back in this hour.';


--
-- Name: sandbox_faults; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.sandbox_faults (
    app_id text NOT NULL,
    target text NOT NULL,
    fault text NOT NULL,
    delay_ms integer NOT NULL,
    times integer NOT NULL,
    happened integer DEFAULT 0 NOT NULL,
    asked_at timestamp with time zone DEFAULT now() NOT NULL,
    first_at timestamp with time zone,
    last_at timestamp with time zone,
    code integer,
    CONSTRAINT sandbox_faults_code_of_refuse CHECK (((fault = 'refuse'::text) = (code IS NOT NULL))),
    CONSTRAINT sandbox_faults_delay_bounded CHECK (((delay_ms >= 0) AND (delay_ms <= 60000))),
    CONSTRAINT sandbox_faults_fault_known CHECK ((fault = ANY (ARRAY['lost'::text, 'unavailable'::text, 'late'::text, 'twice'::text, 'never'::text, 'old'::text, 'refuse'::text]))),
    CONSTRAINT sandbox_faults_happened_bounded CHECK (((happened >= 0) AND (happened <= times))),
    CONSTRAINT sandbox_faults_times_bounded CHECK (((times >= 1) AND (times <= 1000)))
)
WITH (fillfactor='50');


--
-- Name: TABLE sandbox_faults; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.sandbox_faults IS 'Faults that sandbox apps asked for. A row is removed after a week.';


--
-- Name: COLUMN sandbox_faults.app_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.sandbox_faults.app_id IS 'The sandbox app.';


--
-- Name: COLUMN sandbox_faults.target; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.sandbox_faults.target IS 'What the fault happens to: an endpoint, a type of events, or numbers.';


--
-- Name: COLUMN sandbox_faults.fault; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.sandbox_faults.fault IS 'What happens.';


--
-- Name: COLUMN sandbox_faults.delay_ms; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.sandbox_faults.delay_ms IS 'Delay in milliseconds of what is late. 0 for other faults.';


--
-- Name: COLUMN sandbox_faults.times; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.sandbox_faults.times IS 'How often it was asked for.';


--
-- Name: COLUMN sandbox_faults.happened; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.sandbox_faults.happened IS 'How often it has happened.';


--
-- Name: COLUMN sandbox_faults.asked_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.sandbox_faults.asked_at IS 'When it was asked for.';


--
-- Name: COLUMN sandbox_faults.first_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.sandbox_faults.first_at IS 'When it happened first.';


--
-- Name: COLUMN sandbox_faults.last_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.sandbox_faults.last_at IS 'When it happened last.';


--
-- Name: COLUMN sandbox_faults.code; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.sandbox_faults.code IS 'The code that is answered in place of the call. Null for other faults than refuse.';


--
-- Name: sandbox_shipments; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.sandbox_shipments (
    app_id text NOT NULL,
    biz_no text NOT NULL,
    shipments integer DEFAULT 1 NOT NULL,
    first_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT sandbox_shipments_positive CHECK ((shipments >= 1))
);


--
-- Name: TABLE sandbox_shipments; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.sandbox_shipments IS 'What sandbox apps say that they shipped. A row is removed after a week.';


--
-- Name: COLUMN sandbox_shipments.app_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.sandbox_shipments.app_id IS 'The sandbox app.';


--
-- Name: COLUMN sandbox_shipments.biz_no; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.sandbox_shipments.biz_no IS 'Number of the exchange whose items were shipped.';


--
-- Name: COLUMN sandbox_shipments.shipments; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.sandbox_shipments.shipments IS 'How often the game said so.';


--
-- Name: COLUMN sandbox_shipments.first_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.sandbox_shipments.first_at IS 'When it said so first.';


--
-- Name: sold_entries; Type: VIEW; Schema: public; Owner: -
--

CREATE VIEW public.sold_entries AS
 SELECT e.app_no,
    e.wallet_no,
    e.seq,
    e.at,
    COALESCE(e.item_id, x.item_id, a.item_id) AS item_id,
        CASE
            WHEN (e.kind = 'exchange'::text) THEN e.zone_id
            ELSE COALESCE(x.zone_id, a.zone_id)
        END AS zone_id,
        CASE
            WHEN (e.kind = 'exchange'::text) THEN 1
            ELSE 0
        END AS count,
        CASE
            WHEN (e.kind = 'exchange'::text) THEN (- e.free_change)
            ELSE (0)::bigint
        END AS free_taken,
        CASE
            WHEN (e.kind = 'exchange'::text) THEN (- e.charge_change)
            ELSE (0)::bigint
        END AS charge_taken,
        CASE
            WHEN (e.kind = 'cancel'::text) THEN e.free_change
            ELSE (0)::bigint
        END AS free_given_back,
        CASE
            WHEN (e.kind = 'cancel'::text) THEN e.charge_change
            ELSE (0)::bigint
        END AS charge_given_back
   FROM ((public.ledger_entries e
     LEFT JOIN public.ledger_entries x ON (((x.app_no = e.app_no) AND (x.reference = e.of_biz_no))))
     LEFT JOIN public.archived_entries a ON (((a.app_no = e.app_no) AND (a.reference = e.of_biz_no))))
  WHERE (e.kind = ANY (ARRAY['exchange'::text, 'cancel'::text]));


--
-- Name: VIEW sold_entries; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON VIEW public.sold_entries IS 'The same of the ledger alone, with the keys of its entries. Entries can be joined by their keys, which PostgreSQL does not push into a union.';


--
-- Name: thumbnails; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.thumbnails (
    content_sha256 bytea NOT NULL,
    width integer NOT NULL,
    format text NOT NULL,
    bytes bytea NOT NULL,
    made_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT thumbnails_format_known CHECK ((format = ANY (ARRAY['png'::text, 'jpeg'::text]))),
    CONSTRAINT thumbnails_width_positive CHECK ((width >= 1))
);
ALTER TABLE ONLY public.thumbnails ALTER COLUMN bytes SET STORAGE EXTERNAL;


--
-- Name: TABLE thumbnails; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.thumbnails IS 'Small copies of pictures, made at the first request. They can be made again.';


--
-- Name: COLUMN thumbnails.content_sha256; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.thumbnails.content_sha256 IS 'SHA-256 of the blob that they were made from.';


--
-- Name: COLUMN thumbnails.width; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.thumbnails.width IS 'Width and height in pixels.';


--
-- Name: COLUMN thumbnails.format; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.thumbnails.format IS 'png or jpeg.';


--
-- Name: COLUMN thumbnails.bytes; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.thumbnails.bytes IS 'The small picture.';


--
-- Name: COLUMN thumbnails.made_at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.thumbnails.made_at IS 'Database time.';


--
-- Name: wallet_outbox; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.wallet_outbox (
    app_no integer NOT NULL,
    row_id bytea NOT NULL,
    at timestamp with time zone NOT NULL,
    type text NOT NULL,
    count integer NOT NULL,
    keys bytea NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000');


--
-- Name: TABLE wallet_outbox; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.wallet_outbox IS 'Events of wallets that have no number yet. A transaction that writes ledger entries adds a row for each app and type. The row leaves for the table events soon after the commit. Rows leave in the order of their ids, so the key begins with the id and not with the app.';


--
-- Name: COLUMN wallet_outbox.app_no; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.wallet_outbox.app_no IS 'The app.';


--
-- Name: COLUMN wallet_outbox.row_id; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.wallet_outbox.row_id IS 'Six bytes with the time in Unix milliseconds, and ten random bytes. The ids of the events begin with it.';


--
-- Name: COLUMN wallet_outbox.at; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.wallet_outbox.at IS 'Time of the ledger entries.';


--
-- Name: COLUMN wallet_outbox.type; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.wallet_outbox.type IS 'Type of the events.';


--
-- Name: COLUMN wallet_outbox.count; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.wallet_outbox.count IS 'Number of events.';


--
-- Name: COLUMN wallet_outbox.keys; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.wallet_outbox.keys IS 'For each event its ledger entry: wallet_no and seq, eight bytes each. EventKeys of the crate domain describes the encoding.';


--
-- Data for Name: _sqlx_migrations; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) FROM stdin;
1	initial	2026-11-26 20:22:46.876464+00	t	\\xa757039f86c2bff37898128b222c5ef1bee44ddb115cdb3bb67e995ffdc42c92656a470ea7c12e56fe9ef44000c10243	1249884148
2	second person	2026-11-26 20:22:48.128467+00	t	\\xbc8295efbd5978990f7592414ef30debc988a4b2ec7f2d0ec9213264d0a6ac874d9b0a2803fcb33a6f2aa9b1be8ce2d1	23674593
3	frozen wallets	2026-11-26 20:22:48.152654+00	t	\\x896c66e9f79e5d225a536ba9f041dcd72186d22dd1810908f660da40eb10f2064e4cae988d9c1f57cb300aaf11f6b25f	13940761
4	receivers in turns	2026-11-26 20:22:48.167194+00	t	\\x8af5e31abee60f2d61f6176639bfa8bcc3577f266f39fb280fb27ba9ab40c5ccec7b6e88b9219c6ca5b177372b2727b2	2973596
5	wrong codes	2026-11-26 20:22:48.170504+00	t	\\xaecbfc4799d7332c5fffe36d7c8896be07093ce0ed910db919f0ca95ef620cda8d098e0ed7a1b033e13fb1fa8c75aacf	1522014
6	what was refused	2026-11-26 20:22:48.172344+00	t	\\x70235966a962df39403cd14268057b705f672f78b0b0cbd75d439f466f3be3279f6d2668152bab45b9650bfaf41e1b56	5974252
7	closed periods	2026-11-26 20:22:48.178939+00	t	\\x744328fd4133d751a597ec4091931f238220a15e765c5b5cebaa8b73c38a3207707fb7f771a8de95afdf56533373832f	35606226
8	refusing faults	2026-11-26 20:22:48.215132+00	t	\\xf4c7d39b2260d0fe8a40c05343d56a76131ad4ff0d0b2f7302aec806702e1a4c9cf2df7b514a3277cc381111a72c7a16	2432150
\.


--
-- Data for Name: access_tokens; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.access_tokens (app_id, token_hash, issued_at, expires_at) FROM stdin;
mygame	\\xb0bd3c3995254348caa37a41d067782388e3c724124d5eaed7be1dabb28fa35d	2026-11-26 20:22:53.998807+00	2026-11-28 20:22:53.982+00
mygame	\\xa574b61d040ddbfd44bf7aa2a8e6ca31d8c1c42f6f2d99f70df7c325a5911e6f	2026-11-26 20:22:55.269537+00	2026-11-28 20:22:55.267+00
mygame	\\x433edfcbcaf43f9b11e9fd7c65e758913749c5ce3b278ed65eb61cbd1e2610a5	2026-11-26 20:22:57.043895+00	2026-11-28 20:22:57.041+00
mygame	\\x00d4cb9a98ab0ead8bc26af248f5f5fa0474da40fbd041a1fede273e4d525a08	2026-11-26 20:22:58.683681+00	2026-11-28 20:22:58.682+00
mygame	\\x4a4f6baa44762ab724cdc426a3ae22011396afe2e8eaa2606a82f0ea02c08539	2026-11-26 20:23:00.251056+00	2026-11-28 20:23:00.239+00
\.


--
-- Data for Name: api_keys; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.api_keys (name, role, apps, key_sha256, created_at, revoked_at) FROM stdin;
\.


--
-- Data for Name: api_requests; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.api_requests (api_key, idempotency_key, content_sha256, attempt, answer, created_at) FROM stdin;
\.


--
-- Data for Name: apps; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.apps (app_id, app_no, name, category, scopes, sandbox, preorder_check, language, suspended_at, app_secret, secret_generation, secret_created_at, former_secret, former_secret_created_at, exchanges_per_second, reads_per_second, reports_per_second, uploads_per_second, tokens_per_second, logins_per_second, image_bytes_per_day, image_bytes_max, images_per_day, images_max, created_at) FROM stdin;
mygame	1		general	{epay,present,cancel}	t	f	en	\N	\\x2dab4f00373573b930a583a4c737e0f6af589e1ec562ce3c23ce62cb594a312bde2e456ffcfb93ba2c45a00ccbde2d013bb1e5d4a6ca4ec5be24180b	1	2026-11-26 20:22:49.633224+00	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	2026-11-26 20:22:49.633224+00
\.


--
-- Data for Name: archived_entries; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.archived_entries (wallet_no, at, free_change, charge_change, seq, free_balance, charge_balance, remaining, app_no, pay_priority, kind, reference, item_id, zone_id, remark, of_biz_no) FROM stdin;
\.


--
-- Data for Name: archived_wallets; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.archived_wallets (wallet_no, seq, free_balance, charge_balance, free_in, charge_in, first_at, last_at, app_no, archive_no, chain_hash) FROM stdin;
\.


--
-- Data for Name: archives; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.archives (app_id, archive_no, before, entries, state, file, sha256, digest, created_at) FROM stdin;
\.


--
-- Data for Name: audits; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.audits (scope, started_at, id, finished_at, entries, differences, program_version) FROM stdin;
full	2026-11-26 20:23:00.82007+00	2894300553522803650	2026-11-26 20:23:00.985894+00	5	0	0.1.0
\.


--
-- Data for Name: closed_periods; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.closed_periods (app_id, month, time_zone, sha256, statement, closed_by_kind, closed_by, closed_at, compared_at, differs) FROM stdin;
\.


--
-- Data for Name: console_attempts; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.console_attempts (name, address, failed_attempts, locked_until, attempted_at) FROM stdin;
\.


--
-- Data for Name: console_recovery_codes; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.console_recovery_codes (name, code_sha256) FROM stdin;
\.


--
-- Data for Name: console_requests; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.console_requests (app_id, ref, kind, open_id, free, charge, create_wallet, of_biz_no, amount, reason, asked_by, asked_at, state, ended_by, ended_at, give_back_max, account, role, apps, secret) FROM stdin;
\.


--
-- Data for Name: console_sessions; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.console_sessions (token_sha256, name, address, proved_at, created_at, used_at) FROM stdin;
\.


--
-- Data for Name: console_users; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.console_users (name, role, apps, password, totp_secret, totp_step, oidc_issuer, oidc_subject, created_at, wrong_codes) FROM stdin;
\.


--
-- Data for Name: deliveries; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.deliveries (app_id, receiver_id, event_no, event_id, event_at, type, state, tries, next_at, not_before, last_at, status, error) FROM stdin;
\.


--
-- Data for Name: event_head; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.event_head (id, last_no, removed_no) FROM stdin;
1	8	0
\.


--
-- Data for Name: events; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.events (app_id, last_no, at, count, type, row_id, keys) FROM stdin;
mygame	1	2026-11-26 20:22:50.600736+00	1	wallet.credited	\\x01a219866fe819b16715cf7e400c5c10	\\x2a19ecd2a921a1c70000000000000001
mygame	2	2026-11-26 20:22:50.909838+00	1	wallet.debited	\\x01a21986711d97860fcb988241a5d868	\\x2a19ecd2a921a1c70000000000000002
mygame	3	2026-11-26 20:22:51.45571+00	1	wallet.frozen	\\x01a219867340c48aada1a513c75126da	\\x2a19ecd2a921a1c77fffffffffffffff
mygame	4	2026-11-26 20:22:51.991233+00	1	wallet.thawed	\\x01a219867557586aba7ea812e080c3ef	\\x2a19ecd2a921a1c70000000000000000
mygame	5	2026-11-26 20:22:54.104131+00	1	exchange.succeeded	\\x01a219867d9854e41ca628ac1b70d1ca	\\x2a19ecd2a921a1c70000000000000003
mygame	6	2026-11-26 20:22:55.325607+00	1	present.succeeded	\\x01a21986825d8aa8f07b90e5606b4f36	\\x2a19ecd2a921a1c70000000000000004
mygame	7	2026-11-26 20:22:57.092114+00	1	cancel.succeeded	\\x01a2198689444d570848a1798058de0b	\\x2a19ecd2a921a1c70000000000000005
mygame	8	2026-11-26 20:23:00.341735+00	1	order.changed	\\x01a2198695f608f966f2c3ec67b23b09	\\x00000000000000010a6f726465722d31303031
\.


--
-- Data for Name: exchange_refusals; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.exchange_refusals (app_id, biz_no, open_id, code, kind, first_at, last_at, count, request_id, amount, product_name, free_balance, charge_balance) FROM stdin;
\.


--
-- Data for Name: exchange_replays; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.exchange_replays (app_id, biz_no, replays, first_at, last_at) FROM stdin;
\.


--
-- Data for Name: health_minutes; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.health_minutes (at, instance, problems, seen) FROM stdin;
2026-11-26 20:21:00+00	vm:41471	{}	{"at": "2026-11-26T20:21:00Z", "queue": 0, "p50_ms": 75.00000000000001, "p99_ms": 99.5, "refused": {}, "started": true, "stopped": true, "instance": "vm:41471", "queue_max": 10000, "succeeded": 1, "connections": 0, "database_up": true, "round_trip_ms": 1.5828280000000001, "takes_uploads": true, "receivers_failing": 0, "database_connections": 2}
\.


--
-- Data for Name: image_usage; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.image_usage (app_id, day, bytes_today, bytes, images_today, images) FROM stdin;
mygame	2026-11-26	933	933	1	1
\.


--
-- Data for Name: images; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.images (app_id, img_id, sha256, format, side, byte_length, content_sha256, perceptual_hash, blocked_by, uploaded_at, is_reported, last_uploaded_at) FROM stdin;
mygame	00c144d2b952777083036acaceb380fe2b1c4cd280e67b8d	\\xefc0f016e9b85afab3d1e8305ef9386f159ffc867be439a583113ed90421285a	png	128	933	\\xefc0f016e9b85afab3d1e8305ef9386f159ffc867be439a583113ed90421285a	470683189892644755	\N	2026-11-26 20:22:58.785725+00	t	2026-11-26 20:22:58.785725+00
\.


--
-- Data for Name: items; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.items (item_id, app_no, product_name, product_info, product_desc) FROM stdin;
\\xa45ffcd9bed17403f46001d0b06ec4f3	1	Double-up card	[{"product_id":1001,"product_num":1,"product_type":0}]	For one match
\.


--
-- Data for Name: key_uses; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.key_uses (app_id, kind, key, hour, uses, last_used_at) FROM stdin;
mygame	pay_key	1	2026-11-26 20:00:00+00	3	2026-11-26 20:23:01.026449+00
mygame	app_secret	1	2026-11-26 20:00:00+00	5	2026-11-26 20:23:01.026449+00
\.


--
-- Data for Name: ledger_entries; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.ledger_entries (wallet_no, seq, at, free_change, charge_change, free_balance, charge_balance, ts, remaining, app_no, pay_priority, kind, reference, chain_hash, item_id, zone_id, os, user_ip, extension, remark, of_biz_no) FROM stdin;
3033716213535580615	1	2026-11-26 20:22:50.600736+00	40	100	40	100	\N	\N	1	\N	credit	!first	\\x21b11c2130da1f2b93d0cc6c5781baa923fcad1e8771e5ab0cf3ca0951e8fac0	\N	\N	\N	\N	\N		\N
3033716213535580615	2	2026-11-26 20:22:50.909838+00	0	-10	40	90	\N	\N	1	\N	debit	!second	\\x5dcee0a8b14a6ce1078b03b403586a66f8303a63e3fea47077e289947c71ec53	\N	\N	\N	\N	\N		\N
3033716213535580615	3	2026-11-26 20:22:54.104131+00	0	-60	40	30	1795724574022	\N	1	0	exchange	order1001	\\x5435d0cc78a8c67cd9997abaabea15c19410cd5fe6343ccca766ca66f309bae3	\\xa45ffcd9bed17403f46001d0b06ec4f3	zone1_role1	android	203.0.113.7		\N	\N
3033716213535580615	4	2026-11-26 20:22:55.325607+00	5	0	45	30	1795724575288	\N	1	\N	present	gift1001	\\x6a3dec1d7c9eedf1dc315a18d2d4d724aab10ec3bb2abbf547700f3fe7cb91c5	\N	zone1_role1	android	203.0.113.7			\N
3033716213535580615	5	2026-11-26 20:22:57.092114+00	0	20	45	50	1795724577069	40	1	\N	cancel	back1001	\\x810ec397a53e639851bbce0983aa0a0ac2da8d78ccb1fc1807fdc24604d217d6	\N	zone1_role1	android	203.0.113.7			order1001
\.


--
-- Data for Name: login_codes; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.login_codes (app_id, code_hash, open_id, union_id, expires_at) FROM stdin;
\.


--
-- Data for Name: master_key_check; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.master_key_check (id, value) FROM stdin;
1	\\x0a9ebc891ea6e6c82a4f9a35fc22887eac1733b878b96ddd3b7d317b246d0d89255c58364af2f52b5b9281233f4cba
\.


--
-- Data for Name: minitill_migration_lock; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.minitill_migration_lock (id) FROM stdin;
1
\.


--
-- Data for Name: operator_log; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.operator_log (app_id, at, id, operator_kind, operator, action, subject, before, after, note, seq, chain_hash, content_hash, salt, credits, state) FROM stdin;
mygame	2026-11-26 20:22:49.6548+00	1546545723623252809	command_line	release	app.create	mygame	\N	{"name": "", "scopes": ["epay", "present", "cancel"], "sandbox": true, "category": "general", "language": "en", "preorder_check": false}		1	\\xafdffd59076cdd4716ccf452db55e3fa42cd39e9c4e618583a97778e7844d897	\\x6d304d440773b8cf8f6ae30825bd43278cb2da8d09d456d33e03572b279aa275	\\xc135f5c5d8b844525beea77e1e6a8e30	\N	{"name": "", "app_id": "mygame", "app_no": 1, "scopes": ["epay", "present", "cancel"], "sandbox": true, "category": "general", "language": "en", "suspended": false, "images_max": null, "images_per_day": null, "preorder_check": false, "image_bytes_max": null, "pay_keys_sealed": ["52f119660b4e2a3bddbf165643382a9e"], "reads_per_second": null, "app_secret_sealed": "04c23497b50159f58c719ab3658095f4", "logins_per_second": null, "secret_generation": 1, "tokens_per_second": null, "reports_per_second": null, "uploads_per_second": null, "image_bytes_per_day": null, "exchanges_per_second": null, "former_secret_sealed": null}
mygame	2026-11-26 20:22:50.09874+00	-8456201137153628134	command_line	release	app.publish	1	\N	{"pages": ["pages/order"], "version": "1"}		2	\\x059d62a29c265b40198e47c2966a8da1405bfd57d90e6339ce72341eacc0c442	\\x8c025fd0ec042b2125234c7f877873564e98788c05311becb3f50cd6ff51ea7f	\\x09782ff794951cd92963b6c5ebadb358	\N	\N
mygame	2026-11-26 20:22:50.614833+00	1798477149133765692	command_line	release	wallet.credit	player-1	{"free_balance": 0, "charge_balance": 0}	{"ref": "first", "free_balance": 40, "charge_balance": 100}		3	\\x18adb4e05c3bb04f4b0630cbe07c9c85ffaba624c1a63749e8e0d304fcf0d4e4	\\x975ebff5abbd955646b535bba87a4e0aa02ed8111abd4d49851163911c9ec143	\\x45c9c6017266acd2590d3e5a43b1ff60	\N	\N
mygame	2026-11-26 20:22:50.970163+00	-2390370933126985827	command_line	release	wallet.debit	player-1	{"free_balance": 40, "charge_balance": 100}	{"ref": "second", "free_balance": 40, "charge_balance": 90}		4	\\x50b04fb22dc979a396db7d53759eace520e5e5f4b43e5339fca5b13c03d8397b	\\x9f02e3524e61d75bdb7328f33e7a74293f9ee12f8f72ae88c90daabf5e925775	\\x50bf6c9df37308c1f96b5725823381e1	\N	\N
mygame	2026-11-26 20:22:51.512147+00	4921292930892921840	command_line	release	wallet.freeze	player-1	{"until": null, "frozen": false}	{"until": null, "frozen": true}	a test	5	\\xf078e6f3483c51ecf4ac87c10e4ed92b744c82aa38d5e94ac67c904b7a1ad8ee	\\x7ea572b595225d8a3013617c18a4918393b34be4aad3c5dc2af0b7ae56aba038	\\xde55306a98130490847fdb575374c816	\N	{"frozen_until": null}
mygame	2026-11-26 20:22:52.022808+00	8474598730242606136	command_line	release	wallet.thaw	player-1	{"until": null, "frozen": true}	{"until": null, "frozen": false}		6	\\x362c29e8cfd79521c423c4a4b9e156f458740d9a130b11a7b230a2683be4d8cb	\\x06734205f0c6689270730c6f39ce3981543da72cc957aa5db2ff16a22c1c51d4	\\x34391d2d7e533f60e32b7ca97e806607	\N	\N
\.


--
-- Data for Name: operator_log_head; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.operator_log_head (id, seq, chain_hash) FROM stdin;
1	6	\\x362c29e8cfd79521c423c4a4b9e156f458740d9a130b11a7b230a2683be4d8cb
\.


--
-- Data for Name: order_events; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.order_events (app_id, out_biz_order_no, seq, order_status, report, at) FROM stdin;
mygame	order-1001	1	2	{"poi_id": null, "open_id": "player-1", "goods_kind": null, "order_path": "pages/order?id=1", "product_id": null, "order_status": 2, "out_order_no": "order-1001", "product_city": null, "order_backup_url": null, "order_create_time": 1795724579000, "product_catalog_code": null, "product_cover_img_id": "00c144d2b952777083036acaceb380fe2b1c4cd280e67b8d"}	2026-11-26 20:23:00.341735+00
\.


--
-- Data for Name: order_payments; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.order_payments (app_id, out_order_no, out_biz_order_no, first_seen_at) FROM stdin;
mygame	order-1001	order-1001	2026-11-26 20:23:00.341735+00
\.


--
-- Data for Name: orders; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.orders (app_id, out_biz_order_no, out_order_no, open_id, order_create_time, order_status, goods_kind, order_path, product_cover_img_id, order_backup_url, poi_id, product_id, product_catalog_code, product_city, event_count, created_at, updated_at) FROM stdin;
mygame	order-1001	order-1001	player-1	1795724579000	2	\N	pages/order?id=1	00c144d2b952777083036acaceb380fe2b1c4cd280e67b8d	\N	\N	\N	\N	\N	1	2026-11-26 20:23:00.341735+00	2026-11-26 20:23:00.341735+00
\.


--
-- Data for Name: outbox; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.outbox (app_id, row_id, at, type, count, keys) FROM stdin;
\.


--
-- Data for Name: packages; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.packages (app_id, version, pages, published_at) FROM stdin;
mygame	1	{pages/order}	2026-11-26 20:22:50.07795+00
\.


--
-- Data for Name: pay_keys; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.pay_keys (app_id, generation, pay_key, created_at) FROM stdin;
mygame	1	\\x68f930dc6073bbfbf0a6c0231656defdd7fdceb1c43891d61a659a2ca7010d3f93ceb2aaa5b36d7dd0056fb4e2fedfe9972782e2024af8155a0e1c78	2026-11-26 20:22:49.633224+00
\.


--
-- Data for Name: picture_blocks; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.picture_blocks (content_sha256, reason, perceptual_hashes, blocked_at) FROM stdin;
\.


--
-- Data for Name: picture_objects; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.picture_objects (name, stored_in, content_sha256, byte_length, is_kept, created_at) FROM stdin;
\.


--
-- Data for Name: picture_parts; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.picture_parts (content_sha256, part, bytes) FROM stdin;
\\xefc0f016e9b85afab3d1e8305ef9386f159ffc867be439a583113ed90421285a	0	\\x89504e470d0a1a0a0000000d49484452000000800000008008020000004c5cf69c0000036c4944415478daedddbb711c311004d0b1652b0605a0201889c291ad88e42aa1b3244b16795c0033fdd9eb2a585777acdd7e0096b5f8d5b7ef6f29c45289200001480940005202f0b4fcfef975a904009db8a947dd38740b8c7a9ddc3525ea35a3d761a897cd5d44a2123d97a1123d97a18cd27ffc79bb588c0c4a39faeb89cf79780310436fc4b004108c5e93a1e8e923733f94f00070897e8f411dc02efa0d065d00ebf4590695e8b90c95f4b9060800afe89718f800e0f4f14d6ddaa0c4d347be41a2189466fa132f38350d4a2dfdf33f4bb9b06d83d2491f5973750cfa01ba6e0cf02c6d374000f4a60ffeb775ee9ab70d4a2a7dd67ff744833680c37bf8f7c9af1f5f60e5dd0be8329802181ab0fdff3918e0f9c5c01a4189a4cf02a01b14b2f379fe4316c0904127404bf5fff45744806d83f3465098ea7fe5575c8009831e80f6cee7a3efd0012e5e67af4181abff93af2900ec1970007ad3d701e8353805687c31f9e9977500360cb61b4161aa7fe38b84c364377af6d1465022d55f1960b41120007a5fa5c100566f010740acfe2c8043831d00cdea0f06003482f2aafe4480a146300b30319c0206e86a043880e9112e22c0eaedef039c3c00a6c717f1004b37b5fa1828affe471f60b5119457ff430768ef85a600e6e63450005a7aa1009800283f81ad01de3528af27b005c0522328affe870830d40b052000010840000210800004200001084000021080009802e465dc2c405e47835e47674026236201c8a0bce9a07ca6a5cc02646216686256a62692a7266672aef1e4dc4c4f9f05c8020dd0028d2c51222f51ca223ddd457a59a60a02c8426df2426dcd46800150d9aa00b959870e80d0661dc8ed6a44006cb6ab69dfb049014071c326d896657400d12dcb609bf6718bf4a67d986d2bedd27fc0b6adc46cdc7aa7f4fb01ee6a60b3753160f36e97e8bb3a9f6c5f6fb87d7d0e7078700f70c811260667c8e4109f1c6375f763ac72901bff20b71c65c83fca308779f20ff3cc71b639d09916bd10408e34e703dc8601197d3f80bb013efd7e80eb06ca0332b0f44700960cd4c603c0e94f01ac1ae025362e6f28a8290059069de811007b06ed1827d7309dcf38c03943fb80ad48f450802e035881c582037061000782065066a044c1019092e0264006e03228dcbb04005842ea96b500e630646f5317e0d0c3e5be6c00ee5a02108000a404200029a4f21719a2826d2b75b4ef0000000049454e44ae426082
\.


--
-- Data for Name: picture_stores; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.picture_stores (stored_in, id, made_at) FROM stdin;
\.


--
-- Data for Name: pois; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.pois (app_id, poi_id, registered_at) FROM stdin;
\.


--
-- Data for Name: preorders; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.preorders (app_id, out_order_no, registered_at) FROM stdin;
\.


--
-- Data for Name: receivers; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.receivers (app_id, receiver_id, url, types, format, secret, secret_made_at, former_secret, former_until, created_at, paused_at, paused_by, through_no, taken, failing_since, last_taken_at, last_failed_at, last_status, last_error, tries, lease, leased_until, served_until) FROM stdin;
\.


--
-- Data for Name: sales_head; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.sales_head (id, through_no) FROM stdin;
1	7
\.


--
-- Data for Name: sales_hours; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.sales_hours (app_no, cut, hour, product_name, zone, count, free_taken, charge_taken, free_given_back, charge_given_back) FROM stdin;
1	3	2026-11-26 20:00:00+00	Double-up card	zone1	1	0	60	0	20
1	2	2026-11-26 20:00:00+00	Double-up card		1	0	60	0	20
1	1	2026-11-26 20:00:00+00		zone1	1	0	60	0	20
\.


--
-- Data for Name: sandbox_faults; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.sandbox_faults (app_id, target, fault, delay_ms, times, happened, asked_at, first_at, last_at, code) FROM stdin;
\.


--
-- Data for Name: sandbox_shipments; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.sandbox_shipments (app_id, biz_no, shipments, first_at) FROM stdin;
\.


--
-- Data for Name: thumbnails; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.thumbnails (content_sha256, width, format, bytes, made_at) FROM stdin;
\.


--
-- Data for Name: wallet_outbox; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.wallet_outbox (app_no, row_id, at, type, count, keys) FROM stdin;
\.


--
-- Data for Name: wallets; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.wallets (app_no, wallet_no, open_id, created_at, free_balance, charge_balance, entry_count, chain_hash, frozen_until) FROM stdin;
1	3033716213535580615	player-1	2026-11-26 20:22:50.580568+00	45	50	5	\\x810ec397a53e639851bbce0983aa0a0ac2da8d78ccb1fc1807fdc24604d217d6	\N
\.


--
-- Name: _sqlx_migrations _sqlx_migrations_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public._sqlx_migrations
    ADD CONSTRAINT _sqlx_migrations_pkey PRIMARY KEY (version);


--
-- Name: access_tokens access_tokens_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.access_tokens
    ADD CONSTRAINT access_tokens_pkey PRIMARY KEY (app_id, token_hash);


--
-- Name: api_keys api_keys_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_pkey PRIMARY KEY (name);


--
-- Name: api_requests api_requests_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.api_requests
    ADD CONSTRAINT api_requests_pkey PRIMARY KEY (api_key, idempotency_key);


--
-- Name: apps apps_app_no_unique; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.apps
    ADD CONSTRAINT apps_app_no_unique UNIQUE (app_no);


--
-- Name: apps apps_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.apps
    ADD CONSTRAINT apps_pkey PRIMARY KEY (app_id);


--
-- Name: archived_entries archived_entries_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.archived_entries
    ADD CONSTRAINT archived_entries_pkey PRIMARY KEY (app_no, reference);


--
-- Name: archived_wallets archived_wallets_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.archived_wallets
    ADD CONSTRAINT archived_wallets_pkey PRIMARY KEY (app_no, wallet_no, archive_no);


--
-- Name: archives archives_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.archives
    ADD CONSTRAINT archives_pkey PRIMARY KEY (app_id, archive_no);


--
-- Name: audits audits_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.audits
    ADD CONSTRAINT audits_pkey PRIMARY KEY (scope, started_at, id);


--
-- Name: closed_periods closed_periods_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.closed_periods
    ADD CONSTRAINT closed_periods_pkey PRIMARY KEY (app_id, month);


--
-- Name: console_attempts console_attempts_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.console_attempts
    ADD CONSTRAINT console_attempts_pkey PRIMARY KEY (name, address);


--
-- Name: console_recovery_codes console_recovery_codes_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.console_recovery_codes
    ADD CONSTRAINT console_recovery_codes_pkey PRIMARY KEY (name, code_sha256);


--
-- Name: console_requests console_requests_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.console_requests
    ADD CONSTRAINT console_requests_pkey PRIMARY KEY (app_id, ref);


--
-- Name: console_sessions console_sessions_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.console_sessions
    ADD CONSTRAINT console_sessions_pkey PRIMARY KEY (token_sha256);


--
-- Name: console_users console_users_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.console_users
    ADD CONSTRAINT console_users_pkey PRIMARY KEY (name);


--
-- Name: deliveries deliveries_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.deliveries
    ADD CONSTRAINT deliveries_pkey PRIMARY KEY (app_id, receiver_id, event_no);


--
-- Name: event_head event_head_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.event_head
    ADD CONSTRAINT event_head_pkey PRIMARY KEY (id);


--
-- Name: events events_last_no_unique; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_last_no_unique UNIQUE (last_no);


--
-- Name: events events_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (app_id, last_no);


--
-- Name: events events_row_id_unique; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_row_id_unique UNIQUE (row_id);


--
-- Name: exchange_refusals exchange_refusals_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.exchange_refusals
    ADD CONSTRAINT exchange_refusals_pkey PRIMARY KEY (app_id, biz_no, open_id, code);


--
-- Name: exchange_replays exchange_replays_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.exchange_replays
    ADD CONSTRAINT exchange_replays_pkey PRIMARY KEY (app_id, biz_no);


--
-- Name: health_minutes health_minutes_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.health_minutes
    ADD CONSTRAINT health_minutes_pkey PRIMARY KEY (at, instance);


--
-- Name: image_usage image_usage_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.image_usage
    ADD CONSTRAINT image_usage_pkey PRIMARY KEY (app_id);


--
-- Name: images images_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.images
    ADD CONSTRAINT images_pkey PRIMARY KEY (app_id, img_id);


--
-- Name: images images_sha256_unique; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.images
    ADD CONSTRAINT images_sha256_unique UNIQUE (app_id, sha256);


--
-- Name: items items_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.items
    ADD CONSTRAINT items_pkey PRIMARY KEY (app_no, item_id);


--
-- Name: key_uses key_uses_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.key_uses
    ADD CONSTRAINT key_uses_pkey PRIMARY KEY (app_id, kind, key, hour);


--
-- Name: ledger_entries ledger_entries_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.ledger_entries
    ADD CONSTRAINT ledger_entries_pkey PRIMARY KEY (app_no, reference);


--
-- Name: login_codes login_codes_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.login_codes
    ADD CONSTRAINT login_codes_pkey PRIMARY KEY (app_id, code_hash);


--
-- Name: master_key_check master_key_check_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.master_key_check
    ADD CONSTRAINT master_key_check_pkey PRIMARY KEY (id);


--
-- Name: minitill_migration_lock minitill_migration_lock_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.minitill_migration_lock
    ADD CONSTRAINT minitill_migration_lock_pkey PRIMARY KEY (id);


--
-- Name: operator_log_head operator_log_head_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.operator_log_head
    ADD CONSTRAINT operator_log_head_pkey PRIMARY KEY (id);


--
-- Name: operator_log operator_log_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.operator_log
    ADD CONSTRAINT operator_log_pkey PRIMARY KEY (app_id, at, id);


--
-- Name: order_events order_events_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.order_events
    ADD CONSTRAINT order_events_pkey PRIMARY KEY (app_id, out_biz_order_no, seq);


--
-- Name: order_payments order_payments_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.order_payments
    ADD CONSTRAINT order_payments_pkey PRIMARY KEY (app_id, out_order_no);


--
-- Name: orders orders_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.orders
    ADD CONSTRAINT orders_pkey PRIMARY KEY (app_id, out_biz_order_no);


--
-- Name: outbox outbox_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (row_id, app_id);


--
-- Name: packages packages_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.packages
    ADD CONSTRAINT packages_pkey PRIMARY KEY (app_id, version);


--
-- Name: pay_keys pay_keys_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.pay_keys
    ADD CONSTRAINT pay_keys_pkey PRIMARY KEY (app_id, generation);


--
-- Name: picture_blocks picture_blocks_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.picture_blocks
    ADD CONSTRAINT picture_blocks_pkey PRIMARY KEY (content_sha256);


--
-- Name: picture_objects picture_objects_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.picture_objects
    ADD CONSTRAINT picture_objects_pkey PRIMARY KEY (name);


--
-- Name: picture_parts picture_parts_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.picture_parts
    ADD CONSTRAINT picture_parts_pkey PRIMARY KEY (content_sha256, part);


--
-- Name: picture_stores picture_stores_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.picture_stores
    ADD CONSTRAINT picture_stores_pkey PRIMARY KEY (stored_in);


--
-- Name: pois pois_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.pois
    ADD CONSTRAINT pois_pkey PRIMARY KEY (app_id, poi_id);


--
-- Name: preorders preorders_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.preorders
    ADD CONSTRAINT preorders_pkey PRIMARY KEY (app_id, out_order_no);


--
-- Name: receivers receivers_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.receivers
    ADD CONSTRAINT receivers_pkey PRIMARY KEY (app_id, receiver_id);


--
-- Name: sales_head sales_head_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.sales_head
    ADD CONSTRAINT sales_head_pkey PRIMARY KEY (id);


--
-- Name: sales_hours sales_hours_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.sales_hours
    ADD CONSTRAINT sales_hours_pkey PRIMARY KEY (app_no, cut, hour, product_name, zone);


--
-- Name: sandbox_faults sandbox_faults_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.sandbox_faults
    ADD CONSTRAINT sandbox_faults_pkey PRIMARY KEY (app_id, target);


--
-- Name: sandbox_shipments sandbox_shipments_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.sandbox_shipments
    ADD CONSTRAINT sandbox_shipments_pkey PRIMARY KEY (app_id, biz_no);


--
-- Name: thumbnails thumbnails_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.thumbnails
    ADD CONSTRAINT thumbnails_pkey PRIMARY KEY (content_sha256, width);


--
-- Name: wallet_outbox wallet_outbox_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.wallet_outbox
    ADD CONSTRAINT wallet_outbox_pkey PRIMARY KEY (row_id, app_no);


--
-- Name: wallets wallets_open_id_unique; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.wallets
    ADD CONSTRAINT wallets_open_id_unique UNIQUE (app_no, open_id);


--
-- Name: wallets wallets_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.wallets
    ADD CONSTRAINT wallets_pkey PRIMARY KEY (app_no, wallet_no);


--
-- Name: access_tokens_expires_at; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX access_tokens_expires_at ON public.access_tokens USING btree (expires_at);


--
-- Name: api_keys_key_sha256; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX api_keys_key_sha256 ON public.api_keys USING btree (key_sha256);


--
-- Name: api_requests_created_at; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX api_requests_created_at ON public.api_requests USING btree (created_at);


--
-- Name: archived_entries_at; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX archived_entries_at ON public.archived_entries USING btree (app_no, at);


--
-- Name: archived_entries_cancels; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX archived_entries_cancels ON public.archived_entries USING btree (app_no, of_biz_no, remaining) WHERE (of_biz_no IS NOT NULL);


--
-- Name: closed_periods_compared; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX closed_periods_compared ON public.closed_periods USING btree (compared_at);


--
-- Name: closed_periods_differing; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX closed_periods_differing ON public.closed_periods USING btree (month DESC, app_id) WHERE differs;


--
-- Name: console_requests_account; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX console_requests_account ON public.console_requests USING btree (account) WHERE ((account IS NOT NULL) AND (state = 'waiting'::text));


--
-- Name: console_requests_waiting; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX console_requests_waiting ON public.console_requests USING btree (asked_at) WHERE (state = 'waiting'::text);


--
-- Name: console_sessions_name; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX console_sessions_name ON public.console_sessions USING btree (name);


--
-- Name: console_users_oidc; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX console_users_oidc ON public.console_users USING btree (oidc_issuer, oidc_subject);


--
-- Name: deliveries_due; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX deliveries_due ON public.deliveries USING btree (app_id, receiver_id, next_at) WHERE (state = 'waiting'::text);


--
-- Name: exchange_refusals_of_player; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX exchange_refusals_of_player ON public.exchange_refusals USING btree (app_id, open_id, last_at);


--
-- Name: exchange_refusals_oldest; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX exchange_refusals_oldest ON public.exchange_refusals USING btree (app_id, last_at);


--
-- Name: images_blocked_by; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX images_blocked_by ON public.images USING btree (blocked_by) WHERE (blocked_by IS NOT NULL);


--
-- Name: images_content_sha256; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX images_content_sha256 ON public.images USING btree (content_sha256);


--
-- Name: images_img_id; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX images_img_id ON public.images USING btree (img_id);


--
-- Name: images_of_app; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX images_of_app ON public.images USING btree (app_id, uploaded_at, img_id);


--
-- Name: images_unreported; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX images_unreported ON public.images USING btree (last_uploaded_at) WHERE (NOT is_reported);


--
-- Name: images_uploaded_at; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX images_uploaded_at ON public.images USING btree (uploaded_at, img_id);


--
-- Name: ledger_entries_at; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ledger_entries_at ON public.ledger_entries USING btree (app_no, at);


--
-- Name: ledger_entries_cancels; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX ledger_entries_cancels ON public.ledger_entries USING btree (app_no, of_biz_no, remaining) WHERE (of_biz_no IS NOT NULL);


--
-- Name: ledger_entries_seq; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX ledger_entries_seq ON public.ledger_entries USING btree (app_no, wallet_no, seq);


--
-- Name: login_codes_expires_at; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX login_codes_expires_at ON public.login_codes USING btree (expires_at);


--
-- Name: operator_log_accounts; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX operator_log_accounts ON public.operator_log USING btree (action, at) WHERE (action = ANY (ARRAY['api_key.create'::text, 'console_user.add'::text, 'console_user.set_role'::text, 'console_user.reset_second_factor'::text]));


--
-- Name: operator_log_at; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX operator_log_at ON public.operator_log USING btree (at, id);


--
-- Name: operator_log_moves; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX operator_log_moves ON public.operator_log USING btree (operator_kind, operator, at) WHERE (action = ANY (ARRAY['wallet.credit'::text, 'wallet.credits'::text, 'wallet.debit'::text, 'wallet.cancel'::text]));


--
-- Name: operator_log_of_subject; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX operator_log_of_subject ON public.operator_log USING btree (app_id, subject, at, id) WHERE (action <> ALL (ARRAY['wallet.credit'::text, 'wallet.debit'::text, 'wallet.cancel'::text]));


--
-- Name: operator_log_seq; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX operator_log_seq ON public.operator_log USING btree (seq);


--
-- Name: orders_newest; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX orders_newest ON public.orders USING btree (app_id, order_create_time, out_biz_order_no);


--
-- Name: orders_of_player; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX orders_of_player ON public.orders USING btree (app_id, open_id, order_create_time, out_biz_order_no);


--
-- Name: orders_with_cover; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX orders_with_cover ON public.orders USING btree (app_id, product_cover_img_id);


--
-- Name: picture_objects_kept_once; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX picture_objects_kept_once ON public.picture_objects USING btree (content_sha256) WHERE is_kept;


--
-- Name: picture_objects_unfinished; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX picture_objects_unfinished ON public.picture_objects USING btree (created_at) WHERE (NOT is_kept);


--
-- PostgreSQL database dump complete
--


