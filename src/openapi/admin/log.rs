//! The operator's log as the document tells it.

use domain::ids::AppId;

use super::apps::MOMENT;
use super::problems::wrong_field;
use super::{Said, answers, flag, moment, operation, page_of, paging, record, text};
use crate::openapi::json::{Json, object};
use crate::openapi::operation::{APP_ID, Field, OPEN_ID, Place, pattern, text as text_of};

pub(super) fn list() -> Said {
    let any = || object! { "type": vec!["object", "null"] };
    let line = record(vec![
        ("at", moment()),
        ("operator_kind", object! { "type": "string", "enum": vec!["command_line", "console", "api_key"] }),
        ("operator", text()),
        ("action", text()),
        ("app_id", text()),
        ("subject", text()),
        ("before", any()),
        ("after", any()),
        ("note", text()),
    ]);
    let item = object! {
        "action": "wallet.credit",
        "after": object! { "charge_balance": 100, "free_balance": 40, "ref": "start-player-1" },
        "app_id": APP_ID,
        "at": MOMENT,
        "before": object! { "charge_balance": 0, "free_balance": 0 },
        "note": "",
        "operator": "tests",
        "operator_kind": "command_line",
        "subject": OPEN_ID,
    };
    let looked_for = || text_of(1, 512);
    let mut parameters = vec![
        Field::optional("since", moment(), "At or after this moment.").at(Place::Query),
        Field::optional("until", moment(), "Before this moment.").at(Place::Query),
        Field::optional("app_id", pattern(AppId::PATTERN), "Of this app alone.")
            .example(APP_ID)
            .at(Place::Query),
        Field::optional(
            "subject",
            looked_for(),
            "What concerns this player, version, picture, ref or other value.",
        )
        .example(OPEN_ID)
        .at(Place::Query),
        Field::optional("operator", looked_for(), "Whose name holds this text.").at(Place::Query),
        Field::optional("with_imported_credits", flag(), "Each credit of an import too.").at(Place::Query),
    ];
    parameters.extend(paging());
    let operation = operation(
        "List what operators did",
        "Every change that an operator made, newest first: who, by which way, what, and how it stood before and after. No \
         secret stands in it.",
        answers(
            "listed",
            "A page of lines.",
            page_of(line),
            object! { "items": vec![item], "next": Json::Null },
        ),
    );
    let wrong =
        wrong_field("since", "expected a date and time such as 2026-11-21 or 2026-11-21T08:00, got \"soon\"");
    Said { operation: operation.with_parameters(parameters), problems: vec![wrong] }
}
