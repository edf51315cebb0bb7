//! Rust names for the names of the schema language.

/// `TopicData` to `topic_data`, `V3AndBelowTransactionalId` to `v3_and_below_transactional_id`.
pub(crate) fn snake(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let mut out = String::with_capacity(name.len() + 4);
    for (place, c) in chars.iter().enumerate() {
        let before = place.checked_sub(1).map(|p| chars[p]);
        let after_small = before.is_some_and(|b| !b.is_ascii_uppercase());
        let before_small = chars.get(place + 1).is_some_and(char::is_ascii_lowercase);
        if c.is_ascii_uppercase() && before.is_some() && (after_small || before_small) {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// `ListOffsets` to `LIST_OFFSETS`.
pub(crate) fn screaming_snake(name: &str) -> String {
    snake(name).to_ascii_uppercase()
}

/// The name of a struct field: snake case, as a raw identifier if it is a keyword.
pub(crate) fn field(name: &str) -> String {
    const KEYWORDS: [&str; 12] =
        ["type", "match", "move", "mod", "ref", "in", "as", "for", "loop", "use", "where", "self"];
    let name = snake(name);
    if KEYWORDS.contains(&name.as_str()) { format!("r#{name}") } else { name }
}

/// `FetchRequest` to `Fetch`.
pub(crate) fn api(message: &str) -> &str {
    message.strip_suffix("Request").or_else(|| message.strip_suffix("Response")).unwrap_or(message)
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_follow_rust() {
        assert_eq!(super::snake("TopicData"), "topic_data");
        assert_eq!(super::snake("KRaftVersionFeature"), "k_raft_version_feature");
        assert_eq!(super::snake("V3AndBelowTransactionalId"), "v3_and_below_transactional_id");
        assert_eq!(super::snake("isKRaftController"), "is_k_raft_controller");
        assert_eq!(super::field("Type"), "r#type");
        assert_eq!(super::screaming_snake("ListOffsets"), "LIST_OFFSETS");
        assert_eq!(super::api("FetchRequest"), "Fetch");
    }
}
