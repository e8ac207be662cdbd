//! Compares users, API keys, apps, receivers, requests, frozen wallets, closed periods, prices and payment providers with what their newest lines in the operator's log tell. So a
//! change that the role of the servers made without a line is found by its name.

use domain::audit::{Check, Findings};
use domain::operator_log::ChainedLine;
use sqlx::PgConnection;

use super::AuditError;
use super::copy_reader::Copied;
use super::log::{LINES, read_line};
use crate::operator_log::{SubjectKind, ToldStates, all_states, differences};

/// The actions whose lines tell states, and the one that encrypts secrets again.
const ACTIONS: &str = "^(console_user|api_key|app|receiver|topup_provider|change_request)[.]|^wallet[.](freeze|thaw)$|^period[.]close$|^price[.]set$|^master_key[.]rotate$";

/// Names every difference. It reads the lines about states alone, from the first on.
pub(super) async fn compare(
    connection: &mut PgConnection,
    findings: &mut Findings,
) -> Result<(), AuditError> {
    let mut told = ToldStates::default();
    let mut rows =
        Copied::of(connection, &format!("{LINES} WHERE action ~ '{ACTIONS}' ORDER BY seq")).await?;
    while let Some(mut row) = rows.next().await? {
        let line: ChainedLine<'_> = read_line(&mut row)?;
        told.take(&line);
    }
    drop(rows);
    let mut there = all_states(connection).await?;
    for (subject, told) in &told.0 {
        let is = there.remove(subject);
        let mut found = |detail: &dyn Fn() -> String| {
            findings.add(check(subject.kind), &subject.app_id, &subject.name, detail);
        };
        match is {
            None if told.is_there => found(&|| format!("there is none; line {} tells of one", told.seq)),
            None => {}
            Some(_) if !told.is_there => {
                found(&|| format!("there is one; line {} tells that it was removed", told.seq));
            }
            Some(is) => {
                for (name, told_value, is) in differences(&told.members, &is) {
                    found(&|| {
                        let name = name.replace('_', " ");
                        format!("{name}: line {} tells {told_value}; there is {is}", told.seq)
                    });
                }
            }
        }
    }
    for subject in there.keys() {
        findings.add(check(subject.kind), &subject.app_id, &subject.name, || {
            "there is one; no line tells of it".to_owned()
        });
    }
    Ok(())
}

const fn check(kind: SubjectKind) -> Check {
    match kind {
        SubjectKind::User => Check::UserState,
        SubjectKind::ApiKey => Check::ApiKeyState,
        SubjectKind::App => Check::AppState,
        SubjectKind::Receiver => Check::ReceiverState,
        SubjectKind::Request => Check::RequestState,
        SubjectKind::Freeze => Check::FreezeState,
        SubjectKind::Period => Check::PeriodState,
        SubjectKind::Prices => Check::PriceState,
        SubjectKind::PaymentProvider => Check::ProviderState,
    }
}
