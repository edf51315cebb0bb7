//! The states of a group, the events, and their words in the table.

use super::scene::GROUP;
use ottla_core::groups::MemberRef;

/// A group's state, as the table's columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    None,
    Dead,
    Empty,
    Preparing,
    Completing,
    Waiting,
    Stable,
}

impl State {
    pub(crate) const ALL: [State; 7] = [
        State::None,
        State::Dead,
        State::Empty,
        State::Preparing,
        State::Completing,
        State::Waiting,
        State::Stable,
    ];

    pub(crate) fn column(self) -> &'static str {
        match self {
            State::None => "none",
            State::Dead => "dead",
            State::Empty => "empty",
            State::Preparing => "prep",
            State::Completing => "compl",
            State::Waiting => "wait",
            State::Stable => "stable",
        }
    }

    /// A restart leaves it as it is.
    pub(crate) fn is_durable(self) -> bool {
        match self {
            State::None | State::Dead | State::Empty | State::Stable => true,
            State::Preparing | State::Completing | State::Waiting => false,
        }
    }
}

/// An event; the asker's generation is the group's and so much more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Join(Joiner),
    Sync(Member, i32),
    Heartbeat(Member, i32),
    Leave(Leaver),
    /// Plain, or in a transaction.
    Commit(bool, Member, i32),
    CommitWithoutMember(bool),
    Silence,
    HeartbeatsOnly,
    Delete,
    Restart,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Joiner {
    Newcomer,
    Promise,
    Promised,
    Leader,
    Follower,
    Changed,
    Static,
    Replacement,
    Fenced,
    Stranger,
    Alien,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Member {
    Leader,
    Follower,
    Static,
    Fenced,
    Stranger,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaver {
    One(Member),
    Instance,
    Everybody,
}

const JOINERS: [Joiner; 11] = [
    Joiner::Newcomer,
    Joiner::Promise,
    Joiner::Promised,
    Joiner::Leader,
    Joiner::Follower,
    Joiner::Changed,
    Joiner::Static,
    Joiner::Replacement,
    Joiner::Fenced,
    Joiner::Stranger,
    Joiner::Alien,
];
const MEMBERS: [Member; 5] =
    [Member::Leader, Member::Follower, Member::Static, Member::Fenced, Member::Stranger];

/// Every event.
pub(crate) fn events() -> Vec<Event> {
    let mut events: Vec<Event> = JOINERS.map(Event::Join).into();
    for member in MEMBERS {
        for by in -1..=1 {
            events.extend([Event::Sync(member, by), Event::Heartbeat(member, by)]);
            events.extend([Event::Commit(true, member, by), Event::Commit(false, member, by)]);
        }
        events.push(Event::Leave(Leaver::One(member)));
    }
    events.extend([Event::Leave(Leaver::Instance), Event::Leave(Leaver::Everybody)]);
    events.extend([Event::CommitWithoutMember(true), Event::CommitWithoutMember(false)]);
    events.extend([Event::Silence, Event::HeartbeatsOnly, Event::Delete, Event::Restart]);
    events
}

impl Event {
    /// The words of its row.
    pub(crate) fn words(self) -> String {
        let lower = |word: &dyn std::fmt::Debug| format!("{word:?}").to_lowercase();
        let generation = |by: i32| match by {
            -1 => "older",
            0 => "same",
            _ => "newer",
        };
        let commit = |plain: bool| if plain { "commit" } else { "stage" };
        match self {
            Event::Join(joiner) => format!("join {}", lower(&joiner)),
            Event::Sync(member, by) => format!("sync {} {}", lower(&member), generation(by)),
            Event::Heartbeat(member, by) => format!("heartbeat {} {}", lower(&member), generation(by)),
            Event::Leave(Leaver::One(member)) => format!("leave {}", lower(&member)),
            Event::Leave(leaver) => format!("leave {}", lower(&leaver)),
            Event::Commit(plain, member, by) => {
                format!("{} {} {}", commit(plain), lower(&member), generation(by))
            }
            Event::CommitWithoutMember(plain) => format!("{} absent", commit(plain)),
            Event::Silence => "silence".to_owned(),
            Event::HeartbeatsOnly => "heartbeats only".to_owned(),
            Event::Delete => "delete".to_owned(),
            Event::Restart => "restart".to_owned(),
        }
    }
}

impl Member {
    pub(crate) fn ids(self) -> (&'static str, Option<&'static str>) {
        match self {
            Member::Leader => ("a", None),
            Member::Follower => ("b", None),
            Member::Static => ("s-1", Some("s")),
            Member::Fenced => ("s-0", Some("s")),
            Member::Stranger => ("x", None),
        }
    }

    /// As it presents itself in a generation.
    pub(crate) fn at(self, generation: i32) -> MemberRef {
        let (member_id, instance_id) = self.ids();
        MemberRef {
            group_id: GROUP.to_owned(),
            generation,
            member_id: member_id.to_owned(),
            instance_id: instance_id.map(str::to_owned),
        }
    }
}
