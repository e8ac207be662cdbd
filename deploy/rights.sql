-- The rights of the servers' role, `minitill`, on tables that another role owns. The books, the
-- operator's log and its chain only grow for it: it cannot rewrite what is there. The owner runs this
-- after each `minitill migrate`.
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO minitill;
REVOKE UPDATE, DELETE ON operator_log, ledger_entries, items, order_events, audits FROM minitill;
REVOKE INSERT, UPDATE, DELETE ON archives, archived_entries, archived_wallets FROM minitill;
REVOKE INSERT, DELETE ON operator_log_head FROM minitill;
REVOKE INSERT, UPDATE, DELETE ON _sqlx_migrations FROM minitill;
