//! The command line, nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    // A private PostgreSQL is started by this very program; that child never comes back from here.
    private_postgres::become_postgres_if_asked();
    minitill::cli::main()
}
