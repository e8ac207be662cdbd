//! Wallets with money, and later a past: rows that are what the program itself would have written,
//! so that the audit finds nothing.

use indicatif::{ProgressBar, ProgressStyle};

use domain::ids::ItemId;
use testkit::bench::log_lines;

use crate::reference;
use crate::requests::{AMOUNT, APP_ID, CONSTANT_FIELDS, FIRST_OPEN_ID, IMG_ID, ORDER_PATH};
use crate::stage::Session;
use crate::{Fallible, interrupt};

/// What each purse of each wallet holds at the start: more than any run can spend.
pub(crate) const PURSE: u32 = 1_000_000_000;
/// Order numbers of the past are below those of the run.
pub(crate) const FIRST_PAST_ORDER: u64 = 1_000_000_000_000_000_000;
/// Order numbers of the past's first exchange of each wallet, then of the second, and so on.
const PAST_ORDERS_STEP: u64 = 10_000_000_000;
/// All tables that grow.
const TABLES: [&str; 11] = [
    "public.wallets",
    "public.ledger_entries",
    "public.items",
    "public.orders",
    "public.order_payments",
    "public.order_events",
    "reference.wallets",
    "reference.exchanges",
    "reference.orders",
    "reference.order_payments",
    "reference.order_events",
];

/// Gives so many wallets their first money, by a credit each; the same in the reference.
pub(crate) fn wallets(session: &mut Session, count: u32) -> Fallible<()> {
    let steps = [
        reference::TABLES.to_owned(),
        format!(
            "INSERT INTO public.wallets (app_no, wallet_no, open_id, free_balance, charge_balance, entry_count,
                 created_at, chain_hash)
             SELECT app_no, wallet_no, open_id, {PURSE}, {PURSE}, 1, at, {}
             FROM (
                 SELECT app_no, open_id, now() AS at, hashtextextended(open_id, 0) & {} AS wallet_no
                 FROM public.apps, LATERAL (
                     SELECT ({FIRST_OPEN_ID} + wallet)::text AS open_id
                     FROM generate_series(0, {count} - 1) AS wallet
                 ) AS players
                 WHERE app_id = '{APP_ID}'
             ) AS made",
            chain_hash("decode(repeat('00', 32), 'hex')", "1", "credit", "'!start-' || open_id", None, {
                let purse = PURSE.to_string();
                [purse.clone(), purse.clone(), purse.clone(), purse]
            }),
            i64::MAX
        ),
        "INSERT INTO public.ledger_entries (app_no, wallet_no, seq, kind, reference, free_change, charge_change,
             free_balance, charge_balance, at, chain_hash, remark)
         SELECT app_no, wallet_no, 1, 'credit', '!start-' || open_id, free_balance, charge_balance,
             free_balance, charge_balance, created_at, chain_hash, ''
         FROM public.wallets"
            .to_owned(),
        "INSERT INTO reference.wallets (app_id, open_id, free_balance, charge_balance, entry_count)
         SELECT app_id, open_id, free_balance, charge_balance, entry_count FROM public.players"
            .to_owned(),
        format!(
            "INSERT INTO public.images (app_id, img_id, sha256, format, side, byte_length, content_sha256)
             VALUES ('{APP_ID}', '{IMG_ID}', sha256('picture'), 'png', 64, 7, sha256('picture'));
             INSERT INTO reference.images SELECT * FROM public.images"
        ),
        // An order of each wallet, to be changed.
        format!(
            "INSERT INTO reference.orders (app_id, out_biz_order_no, out_order_no, open_id, order_create_time,
                 order_status, order_path, product_cover_img_id, event_count)
             SELECT '{APP_ID}', number, number, open_id, 0, 1, '{ORDER_PATH}', '{IMG_ID}', 1
             FROM (
                 SELECT ({FIRST_PAST_ORDER} + wallet)::text AS number, ({FIRST_OPEN_ID} + wallet)::text AS open_id
                 FROM generate_series(0, {count} - 1) AS wallet
             ) AS made;
             INSERT INTO reference.order_payments (app_id, out_order_no, out_biz_order_no)
             SELECT app_id, out_order_no, out_biz_order_no FROM reference.orders;
             INSERT INTO reference.order_events (app_id, out_biz_order_no, seq, order_status, report)
             SELECT app_id, out_biz_order_no, 1, 1, to_jsonb(o) - '{{app_id,event_count}}'::text[]
             FROM reference.orders o"
        ),
    ];
    let steps: Vec<String> = steps.into_iter().chain([log_lines::of_credits()]).chain(settle()).collect();
    perform(session, "making wallets", &steps)
}

/// Gives each wallet so many exchanges more, in ours and in the reference. Nobody else may write
/// meanwhile: the tables are without their keys for a while, which makes it quicker.
pub(crate) fn past(session: &mut Session, per_wallet: u32) -> Fallible<()> {
    let keyed = ["public.ledger_entries", "reference.exchanges"];
    let mut steps = vec!["SET synchronous_commit = off; SET maintenance_work_mem = '512MB'".to_owned()];
    let mut keys_again = Vec::new();
    for table in keyed {
        let name = session.text(&primary_key(table, "conname::text"))?;
        let definition = session.text(&primary_key(table, "pg_get_constraintdef(oid)"))?;
        steps.push(format!("ALTER TABLE {table} DROP CONSTRAINT {name}"));
        keys_again.push(format!("ALTER TABLE {table} ADD CONSTRAINT {name} {definition}"));
    }
    for index in ["ledger_entries_seq", "ledger_entries_cancels"] {
        keys_again.push(session.text(&format!("SELECT pg_get_indexdef('public.{index}'::regclass)"))?);
        steps.push(format!("DROP INDEX public.{index}"));
    }
    let bought = item();
    steps.push(format!(
        "INSERT INTO public.items (app_no, item_id, product_name, product_info, product_desc)
         SELECT app_no, '{}', {} FROM public.apps WHERE app_id = '{APP_ID}' ON CONFLICT DO NOTHING",
        bought.id, bought.texts
    ));
    // The hash of each wallet's last entry so far.
    steps.push(
        "CREATE UNLOGGED TABLE public.past_0 AS SELECT app_no, wallet_no, created_at AS at, chain_hash FROM public.wallets"
            .to_owned(),
    );
    for turn in 1..=per_wallet {
        steps.extend([past_ledger(turn, &bought.id), past_reference(turn)]);
    }
    let paid = u64::from(per_wallet) * u64::from(AMOUNT);
    let update =
        format!("SET charge_balance = charge_balance - {paid}, entry_count = entry_count + {per_wallet}");
    steps.push(format!("UPDATE reference.wallets {update}"));
    steps.push(format!(
        "UPDATE public.wallets w {update}, chain_hash = p.chain_hash
         FROM public.past_{per_wallet} p WHERE p.app_no = w.app_no AND p.wallet_no = w.wallet_no"
    ));
    steps.push(format!("DROP TABLE public.past_{per_wallet}"));
    steps.extend(keys_again);
    steps.extend(settle());
    steps.push("RESET ALL".to_owned());
    perform(session, "filling the tables", &steps)
}

/// The primary key of a table.
fn primary_key(table: &str, what: &str) -> String {
    format!("SELECT {what} FROM pg_constraint WHERE conrelid = '{table}'::regclass AND contype = 'p'")
}

/// The order number of each wallet's exchange of one turn.
fn past_order(turn: u32) -> String {
    let first = FIRST_PAST_ORDER + u64::from(turn) * PAST_ORDERS_STEP;
    format!("({first} + open_id::bigint - {FIRST_OPEN_ID})::text")
}

/// What the load generator sends with every exchange, as columns and as values.
fn constants(wanted: fn(&str) -> bool) -> (String, String) {
    let fields = CONSTANT_FIELDS.into_iter().filter(|(name, _)| wanted(name));
    let (names, values): (Vec<_>, Vec<_>) = fields.map(|(name, value)| (name, format!("'{value}'"))).unzip();
    (names.join(", "), values.join(", "))
}

/// What every exchange of the past has bought: the id as PostgreSQL writes it, and the texts as SQL.
struct Item {
    id: String,
    texts: String,
}

fn item() -> Item {
    let text = |wanted: &str| {
        let field = CONSTANT_FIELDS.iter().find(|(name, _)| *name == wanted);
        field.map_or("", |(_, value)| *value)
    };
    let [name, info, desc] = ["product_name", "product_info", "product_desc"].map(text);
    let id = format!("\\x{}", hex::encode(ItemId::of(name, info, desc).0));
    Item { id, texts: format!("'{name}', '{info}', '{desc}'") }
}

/// The hash of an entry, of columns `app_no`, `wallet_no` and `at` and of these; `numbers` are the
/// changes of both purses and both balances.
fn chain_hash(
    before: &str,
    seq: &str,
    kind: &str,
    reference: &str,
    item_id: Option<&str>,
    numbers: [String; 4],
) -> String {
    let text = |text: &str| format!("int4send(octet_length({text})) || convert_to({text}, 'UTF8')");
    let number = |number: &str| format!("int4send(8) || int8send({number})");
    let null = "int4send(-1)".to_owned();
    let columns = [
        "int4send(4) || int4send(app_no)".to_owned(),
        number("wallet_no"),
        number(seq),
        text(&format!("'{kind}'")),
        text(reference),
        null.clone(),
        null.clone(),
        item_id.map_or_else(|| null.clone(), |id| format!("int4send(16) || '{id}'::bytea")),
        // Charged first.
        item_id.map_or(null.clone(), |_| "int4send(2) || int2send(0::smallint)".to_owned()),
        numbers.map(|value| number(&value)).join(" || "),
        "int4send(8) || timestamptz_send(at)".to_owned(),
    ];
    format!("sha256({before} || {})", columns.join(" || "))
}

/// Adds the entries of one turn, and keeps the hash of each for the next.
fn past_ledger(turn: u32, item_id: &str) -> String {
    let (order, paid) = (past_order(turn), u64::from(turn) * u64::from(AMOUNT));
    let (seq, free, charge) =
        (format!("entry_count + {turn}"), "free_balance".to_owned(), format!("charge_balance - {paid}"));
    let numbers = ["0".to_owned(), format!("-{AMOUNT}"), free, charge];
    let hash = chain_hash("p.chain_hash", &seq, "exchange", &order, Some(item_id), numbers.clone());
    let before = turn - 1;
    let (names, values) = constants(|name| !name.starts_with("product_"));
    format!(
        "CREATE UNLOGGED TABLE public.past_{turn} (LIKE public.past_{before});
         WITH entered AS (
             INSERT INTO public.ledger_entries (app_no, wallet_no, seq, kind, reference, free_change, charge_change,
                 free_balance, charge_balance, at, chain_hash, item_id, pay_priority, ts, {names})
             SELECT app_no, wallet_no, {seq}, 'exchange', {order}, {}, at, {hash}, '{item_id}', 0,
                 (extract(epoch FROM now()) * 1000)::bigint, {values}
             FROM public.wallets w JOIN public.past_{before} p USING (app_no, wallet_no)
             RETURNING app_no, wallet_no, at, chain_hash
         )
         INSERT INTO public.past_{turn} SELECT * FROM entered;
         DROP TABLE public.past_{before}",
        numbers.join(", ")
    )
}

fn past_reference(turn: u32) -> String {
    let (order, (names, values)) = (past_order(turn), constants(|_| true));
    let paid = u64::from(turn) * u64::from(AMOUNT);
    format!(
        "INSERT INTO reference.exchanges (app_id, biz_no, open_id, seq, amount, pay_priority, ts, kind, reference,
             free_change, charge_change, free_balance, charge_balance, {names})
         SELECT app_id, {order}, open_id, entry_count + {turn}, {AMOUNT}, 0,
             (extract(epoch FROM now()) * 1000)::bigint, 'exchange', {order}, 0, -{AMOUNT},
             free_balance, charge_balance - {paid}, {values}
         FROM reference.wallets"
    )
}

/// Leaves nothing to do for later that would be counted against whoever is measured first.
fn settle() -> impl Iterator<Item = String> {
    let vacuums = TABLES.map(|table| format!("VACUUM ANALYZE {table}"));
    vacuums.into_iter().chain(["CHECKPOINT".to_owned()])
}

/// Runs one statement after the other.
fn perform(session: &mut Session, what: &'static str, steps: &[String]) -> Fallible<()> {
    let style = ProgressStyle::with_template("{spinner} {msg} {bar:40} {pos}/{len} {elapsed}")?;
    let bar = ProgressBar::new(steps.len().try_into()?).with_style(style).with_message(what);
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    for step in steps {
        interrupt::check()?;
        session.execute(step)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}
