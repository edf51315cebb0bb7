//! The schema language: everything it can say is read and printed, and every broken rule is refused with its place.

use ottla_schema::{Default, FieldType, Glossary, Message, Schema, Versions, generate, parse, print};

/// Uses every attribute and the habits of real files: comments, a URL in a text, numbers and truth values as strings.
const EVERYTHING: &str = r#"
// A comment before, with a "quote".
{
  "apiKey": "77", "type": "request", "listeners": ["broker", "controller"], "name": "EverythingRequest",
  /* block
     comment */
  "validVersions": "1-4", "deprecatedVersions": "1", "flexibleVersions": "3+", "latestVersionUnstable": true,
  "fields": [
    { "name": "Flag", "type": "bool", "versions": "1+", "default": "TRUE", "ignorable": "true" }, // see http://x
    { "name": "Tiny", "type": "int8", "versions": "1+", "default": -1, "about": "See http://example.org//path." },
    { "name": "Port", "type": "uint16", "versions": "1-2" },
    { "name": "Wide", "type": "int64", "versions": "0+", "default": "0x7fffffffffffffff" },
    { "name": "Share", "type": "float64", "versions": "2+", "default": "1.5" },
    { "name": "Id", "type": "uuid", "versions": "2+", "default": "AAAAAAAAAAAAAAAAAAAAAQ" },
    { "name": "Who", "type": "string", "versions": "1+", "nullableVersions": "2+", "flexibleVersions": "none" },
    { "name": "Blob", "type": "bytes", "versions": "1+", "zeroCopy": true },
    { "name": "Data", "type": "records", "versions": "1+", "nullableVersions": "1+" },
    { "name": "Topics", "type": "[]Topic", "nullableVersions": "2+", "default": null, "versions": "2+",
      "fields": [
        { "name": "Name", "type": "string", "versions": "0+", "mapKey": true, "entityType": "topicName" },
        { "name": "Parts", "type": "[]Part", "versions": "2+" }
      ] },
    { "name": "Late", "type": "Part", "tag": "0", "taggedVersions": "4+", "nullableVersions": "4+", "default": "null" }
  ],
  "commonStructs": { "name": "Part", "versions": "2+", "fields": [
    { "name": "Index", "type": "int32", "versions": "2+" },
    { "name": "Gone", "type": "int32", "versions": "0-1" }
  ] }
}
"#;

fn message() -> (Schema, Message) {
    match parse(EVERYTHING) {
        Ok(schema) => {
            let message = Message::resolve(&schema);
            (schema, message)
        }
        Err(why) => panic!("{why}"),
    }
}

#[test]
fn everything_is_read_and_printed_and_read_again() {
    let (schema, _) = message();
    assert_eq!((schema.api_key, schema.latest_version_unstable), (Some(77), true));
    assert_eq!(schema.listeners, ["broker", "controller"]);
    assert_eq!(schema.fields[0].default, Some(Default::Bool(true)));
    assert!(schema.fields[0].ignorable && schema.fields[7].zero_copy);
    assert_eq!(schema.fields[1].about.as_deref(), Some("See http://example.org//path."));
    assert_eq!(schema.fields[3].default, Some(Default::Int(i64::MAX)));
    assert_eq!(schema.fields[5].default, Some(Default::Uuid(1_u128.to_be_bytes())));
    assert_eq!(schema.fields[9].ty, FieldType::Array(Box::new(FieldType::Struct("Topic".to_owned()))));
    assert_eq!(schema.fields[10].versions, Versions { min: 4, max: Versions::OPEN });
    let printed = print(&schema);
    assert!(!printed.contains("//") && !printed.contains("about"));
    let mut facts = schema;
    facts.fields[1].about = None;
    assert_eq!(parse(&printed), Ok(facts));
}

#[test]
fn fields_are_cut_to_the_versions_of_their_struct() {
    let (_, message) = message();
    let names: Vec<_> = message.structs.iter().map(|s| (s.name.as_str(), s.versions.to_string())).collect();
    let expected = [("EverythingRequest", "1-4"), ("Topic", "2-4"), ("Part", "2-4")];
    assert_eq!(names, expected.map(|(name, versions)| (name, versions.to_owned())));
    // Gone has no version that the struct can occur in.
    assert_eq!(message.structs[2].members.len(), 1);
    let late = &message.structs[0].members[10];
    assert!(late.plain().is_empty());
    assert_eq!(message.smallest(&FieldType::Struct("Part".to_owned()), Versions { min: 2, max: 4 }), 4);
    assert_eq!(message.smallest(&FieldType::String, Versions { min: 2, max: 2 }), 2);
}

#[test]
fn code_is_made_for_it() {
    let (_, message) = message();
    let glossary = Glossary::parse(
        "[fields]\nTiny = \"A small one.\"\n[messages.EverythingRequest]\nabout = \"All.\"\n",
    );
    let code = generate::generate(&[message], &glossary.unwrap_or_default()).messages;
    for piece in [
        "pub mod everything_request {",
        "pub topics: Option<Vec<Topic>>,",
        "A small one. (default `-1`)",
        "(versions 1-2)",
        "id: Uuid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),",
        "pub const EVERYTHING: ApiKey = ApiKey(77);",
    ] {
        assert!(code.contains(piece), "{piece}");
    }
}

#[test]
fn every_broken_rule_is_refused_with_its_place() {
    let field = |text: &str| format!("\"fields\": [{{ {text} }}]");
    let cases = [
        (field(r#""name": "A", "type": "int32", "versions": "0+", "colour": 1"#), "M.A: unknown attribute 'colour'"),
        (field(r#""name": "A", "type": "int33", "versions": "0+""#), "M.A: unknown type 'int33'"),
        (field(r#""name": "A", "type": "[][]int32", "versions": "0+""#), "M.A: unknown type '[][]int32'"),
        (field(r#""name": "A", "type": "int8", "versions": "0+", "default": "128""#), "M.A: '128' is no default for int8"),
        (field(r#""name": "A", "type": "int8", "versions": "0+", "default": "010""#), "M.A: '010' is no default for int8"),
        (field(r#""name": "A", "type": "bytes", "versions": "0+", "default": "x""#), "M.A: 'x' is no default for bytes"),
        (field(r#""name": "A", "type": "int8", "versions": "0+", "nullableVersions": "0+""#), "M.A: int8 cannot be null"),
        (
            field(r#""name": "A", "type": "string", "versions": "0+", "nullableVersions": "1+", "default": "null""#),
            "M.A: null is the default but not legal in every version",
        ),
        (field(r#""name": "A", "type": "int8", "versions": "5-2""#), "M.A: versions '5-2' is no range of versions"),
        (field(r#""name": "A", "type": "int8""#), "M.A: has neither versions nor taggedVersions"),
        (
            field(r#""name": "A", "type": "int8", "versions": "0+", "tag": 0"#),
            "M.A: tag and taggedVersions go together",
        ),
        (
            field(r#""name": "A", "type": "int8", "tag": 1, "taggedVersions": "1+""#),
            "M: tags must be 0, 1, 2 and so on without holes",
        ),
        (
            field(r#""name": "A", "type": "int8", "tag": 0, "taggedVersions": "0+""#),
            "M.A: taggedVersions must be open-ended, within versions and flexible versions",
        ),
        (field(r#""name": "A", "type": "B", "versions": "0+""#), "M.A: struct B is not defined"),
        (
            field(r#""name": "A", "type": "int8", "versions": "0+", "mapKey": true"#),
            "M.A: a root field or tagged field cannot be a mapKey",
        ),
        (
            field(r#""name": "A", "type": "int8", "versions": "0+", "flexibleVersions": "none""#),
            "M.A: flexibleVersions is for strings and bytes, within the message's",
        ),
        (
            field(r#""name": "A", "type": "[]int64", "versions": "0+", "entityType": "brokerId""#),
            "M.A: a brokerId is int32",
        ),
        (field(r#""name": "A-", "type": "int8", "versions": "0+""#), "M.A-: a name is letters and digits and starts with a letter"),
        (
            r#""commonStructs": [{ "name": "S", "versions": "0+", "fields": [{ "name": "A", "type": "S", "versions": "0+" }] }],
               "fields": [{ "name": "A", "type": "S", "versions": "0+" }]"#
                .to_owned(),
            "M: struct S contains itself",
        ),
    ];
    for (rest, expected) in cases {
        let text = format!(
            r#"{{ "type": "data", "name": "M", "validVersions": "0-3", "flexibleVersions": "1+", {rest} }}"#
        );
        assert_eq!(parse(&text).map_err(|why| why.to_string()), Err(expected.to_owned()));
    }
}

#[test]
fn rules_of_the_message_itself() {
    let cases = [
        (
            r#"{ "type": "data", "name": "M", "validVersions": "0+", "flexibleVersions": "none" }"#,
            "an upper end",
        ),
        (
            r#"{ "type": "data", "name": "M", "validVersions": "0", "flexibleVersions": "0-1" }"#,
            "open-ended or none",
        ),
        (r#"{ "type": "data", "name": "M", "validVersions": "0" }"#, "has no flexibleVersions"),
        (
            r#"{ "type": "request", "name": "M", "validVersions": "0", "flexibleVersions": "none" }"#,
            "needs an apiKey",
        ),
        (r#"{ "type": "letter", "name": "M", "validVersions": "0" }"#, "unknown message type 'letter'"),
        (r#"{ "type": "data", "validVersions": "0" }"#, "has no name"),
        ("{ nonsense", "not JSON"),
    ];
    for (text, expected) in cases {
        let refused = parse(text).map_err(|why| why.to_string());
        assert!(refused.as_ref().is_err_and(|why| why.contains(expected)), "{refused:?}");
    }
    let removed =
        parse(r#"{ "apiKey": 4, "type": "request", "name": "OldRequest", "validVersions": "none" }"#);
    assert!(removed.is_ok_and(|schema| Message::resolve(&schema).structs.is_empty()));
}

#[test]
fn the_glossary_prefers_the_message() {
    let text = "[fields]\nA = \"general\"\nB = \"b\"\n[messages.M]\nabout = \"m\"\nA = \"special\"\n";
    let glossary = Glossary::parse(text).unwrap_or_default();
    assert_eq!(glossary.field("M", "A"), Some("special"));
    assert_eq!((glossary.field("N", "A"), glossary.field("M", "B")), (Some("general"), Some("b")));
    assert_eq!((glossary.message("M"), glossary.message("N")), (Some("m"), None));
    assert!(Glossary::parse("[fields]\nA = 1\n").is_err());
    assert!(Glossary::parse("[words]\n").is_err());
}
