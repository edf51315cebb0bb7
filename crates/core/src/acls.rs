//! Access control lists: which principal may do which operation on which resource.
//!
//! An ACL has two states: it exists from the record that adds it to the record that removes it. A request changes any
//! number of ACLs with one record, so the change is atomic (S-216).

mod command;
mod filter;
mod host;
mod index;

pub use command::{AclCommand, AclError, CreateAcls, CreateAclsReply, DeleteAcls, DeleteAclsReply};
pub use filter::{AclFilter, PatternFilter};
pub use index::{Access, AclIndex, Decision};

use crate::effect::Effects;
use ottla_types::acl::Acl;
use ottla_types::record::{AclRecord, AclsChanged, LogRecord};
use std::collections::BTreeSet;

/// The most ACLs in one row of a snapshot.
const ACLS_A_ROW: usize = 1000;

/// All ACLs.
#[derive(Debug, Default)]
pub struct Acls {
    acls: BTreeSet<Acl>,
    index: AclIndex,
}

impl Acls {
    /// All ACLs, by resource, principal, host and operation.
    pub fn all(&self) -> impl Iterator<Item = &Acl> {
        self.acls.iter()
    }

    /// The ACLs that a filter selects, in the order of [`Acls::all`].
    pub fn matching<'a>(&'a self, filter: &'a AclFilter) -> impl Iterator<Item = &'a Acl> {
        self.acls.iter().filter(|acl| filter.selects(acl))
    }

    /// The same ACLs, indexed for decisions.
    pub fn index(&self) -> &AclIndex {
        &self.index
    }

    /// Judges a command and replies to it.
    pub(crate) fn step(&mut self, command: AclCommand, out: &mut Effects) {
        match command {
            AclCommand::CreateAcls(command, ticket) => {
                let reply = self.create(command, out);
                out.reply(ticket, reply);
            }
            AclCommand::DeleteAcls(command, ticket) => {
                let reply = self.delete(&command, out);
                out.reply(ticket, reply);
            }
        }
    }

    fn create(&self, command: CreateAcls, out: &mut Effects) -> CreateAclsReply {
        let mut added = BTreeSet::new();
        let mut results = Vec::with_capacity(command.acls.len());
        for acl in command.acls {
            let judged = command::check(&acl);
            if judged.is_ok() && !self.acls.contains(&acl) {
                added.insert(acl);
            }
            results.push(judged);
        }
        if !added.is_empty() {
            out.append(AclsChanged { removed: Vec::new(), added: added.into_iter().collect() });
        }
        results
    }

    fn delete(&self, command: &DeleteAcls, out: &mut Effects) -> DeleteAclsReply {
        let select = |filter| self.matching(filter).cloned().collect();
        let selected: DeleteAclsReply = command.filters.iter().map(select).collect();
        let removed: BTreeSet<&Acl> = selected.iter().flatten().collect();
        if !removed.is_empty() {
            out.append(AclsChanged { removed: removed.into_iter().cloned().collect(), added: Vec::new() });
        }
        selected
    }

    pub(crate) fn apply(&mut self, record: &AclRecord) {
        let AclRecord::AclsChanged(changed) = record;
        for acl in &changed.removed {
            self.acls.remove(acl);
        }
        self.acls.extend(changed.added.iter().cloned());
        self.index.apply(changed);
    }

    pub(crate) fn snapshot(&self, rows: &mut Vec<LogRecord>) {
        let all: Vec<&Acl> = self.acls.iter().collect();
        rows.extend(all.chunks(ACLS_A_ROW).map(|chunk| {
            let added = chunk.iter().map(|acl| (*acl).clone()).collect();
            LogRecord::from(AclsChanged { removed: Vec::new(), added })
        }));
    }
}
