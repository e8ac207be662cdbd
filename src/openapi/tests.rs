use super::*;

/// A call that answers `body` or is refused with `refusal`, at either of two statuses.
fn call(id: &'static str, body: &Value, refusal: &Value) -> DocumentedCall {
    let content = Content::Json { schema: schema::<Vec<String>>(), example: body.clone() };
    let refused = |name, status| {
        let refusal = WireRefusal { status, code: "7".to_owned(), body: refusal.clone(), waits: true };
        Example { name, summary: "It cannot be done.", refusal }
    };
    let operation = Operation::new("Do it", "It is done.")
        .answers(Success::new("done", "It is done.", 200, content))
        .refuses([refused("refused", 200), refused("unavailable", 503)]);
    DocumentedCall { id, method: "POST", path: "/it", tag: "It", operation, refusal: schema::<u32>() }
}

fn document(calls: Vec<DocumentedCall>) -> Value {
    let api = Api {
        title: "It",
        summary: "It",
        description: String::new(),
        server: (String::new(), "It"),
        api_key: None,
        strict: false,
        tags: &[("It", "It")],
        refusal_type: JSON,
        refusals_in_words: |refusals| format!("Refused: {}.", refusals[0].name),
        calls,
        webhooks: Vec::new(),
    };
    serde_json::to_value(api.document()).unwrap()
}

#[test]
fn an_example_that_reads_the_same_in_every_call_stands_once() {
    let (done, refused) = (json!(["done"]), json!(7));
    let document = document(vec![call("one", &done, &refused), call("other", &json!([]), &refused)]);
    let examples = document["components"]["examples"].as_object().unwrap();
    let names: Vec<&str> = examples.keys().map(String::as_str).collect();
    assert_eq!(names, ["one.done", "other.done", "refused", "unavailable"]);
    assert_eq!(examples["refused"], json!({ "summary": "It cannot be done.", "value": 7 }));
}

#[test]
fn a_status_shows_the_answers_that_can_have_it() {
    let document = document(vec![call("one", &json!([]), &json!(7))]);
    let responses = &document["paths"]["/it"]["post"]["responses"];
    let both = &responses["200"];
    assert_eq!(both["description"], "It is done. Refused: refused.");
    assert_eq!(both["content"][JSON]["schema"]["anyOf"].as_array().unwrap().len(), 2);
    let refused = &responses["503"];
    assert_eq!(refused["description"], "Refused: unavailable.");
    assert_eq!(
        refused["content"][JSON]["schema"],
        json!({ "type": "integer", "format": "int64", "minimum": 0 })
    );
    assert!(refused["headers"]["Retry-After"].is_object());
}

#[test]
#[should_panic(expected = "two types are named Same")]
fn two_types_of_one_name_are_refused() {
    let named =
        |schema: Value| Schema { root: json!({}), named: BTreeMap::from([("Same".to_owned(), schema)]) };
    let with =
        |schema: Value| DocumentedCall { refusal: named(schema), ..call("one", &json!([]), &json!(7)) };
    document(vec![with(json!({ "type": "string" })), with(json!({ "type": "integer" }))]);
}

/// Rule: one function reads a request and describes it, with the same names in the same order.
#[test]
fn a_reader_describes_the_fields_that_it_reads() {
    let read = |input: &mut Input<'_>| {
        let number = input.field("number", "How many.").example(3).integer(1, 5)?;
        let name = input.field("name", "Who.").demand("pattern", "^[a-z]+$");
        let name = name.required("ada", |text| Ok::<_, domain::fields::Expected>(text.to_owned()))?;
        Ok::<_, domain::fields::FieldError>((number, name))
    };
    let described = serde_json::to_value(Input::describe(read)).unwrap();
    let integer = json!({ "type": "integer", "format": "int64", "minimum": 1, "maximum": 5 });
    let text = json!({ "type": "string", "pattern": "^[a-z]+$" });
    assert_eq!(
        described,
        json!([
            { "name": "number", "in": "body", "required": false, "description": "How many.", "schema": integer, "example": 3 },
            { "name": "name", "in": "body", "required": true, "description": "Who.", "schema": text, "example": "ada" },
        ])
    );
    let came = domain::fields::Fields::from_urlencoded(b"name=bob&number=4").unwrap();
    let mut input = Input::of(&came);
    assert_eq!(read(&mut input).unwrap(), (Some(4), "bob".to_owned()));
    assert_eq!(input.names(), ["number", "name"]);
    let wrong = domain::fields::Fields::from_urlencoded(b"name=bob&number=6").unwrap();
    let error = read(&mut Input::of(&wrong)).unwrap_err();
    assert_eq!(error.to_string(), "number: expected an integer from 1 to 5, got \"6\"");
}
