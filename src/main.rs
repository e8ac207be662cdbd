//! The command line, nothing else.

use std::process::ExitCode;

/// Each request allocates many small pieces of memory (docs/decisions/0015-mimalloc.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // A private PostgreSQL is started by this very program; that child never comes back from here.
    private_postgres::become_postgres_if_asked();
    minitill::cli::main()
}
