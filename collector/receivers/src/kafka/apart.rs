//! Parts of batches that were refused for their rows: when each is salvaged, and what is recorded
//! before that.
//!
//! A part is a batch's rows for one table and day. Its pieces are stored under their own tokens, so
//! once a piece may have been sent, nothing larger that contains it may ever be sent again, even if
//! the table would accept it by then. So a commit names the part, and the piece to continue with,
//! before the halves of a refused piece are sent ([`millrace_ledger::Apart`]). Pieces are sent in
//! order, so one place suffices: nothing behind it was ever halved. The refused parts of a batch
//! are salvaged one after the other in a fixed order, so one part is named, not a list. Whoever
//! cuts the batch again leaves out the parts before it, salvages this one at once, and sends the
//! later ones whole, of which no piece was ever sent.

use millrace_ledger::{Apart, OffsetRange, Ticket};
use millrace_pipeline::sink::{Block, Origin, Rejection};

use super::jobs::{Job, Question, Record};
use super::member::Member;
use super::partition::Key;
use super::parts::{OpenPart, Part, Refused};
use super::session::Session;
use super::settings::Delivery;

/// The reason for a part whose salvage an earlier attempt began; each message that is refused again
/// has its own reason.
const REFUSED_BEFORE: &str = "refused";

impl<M: Member> Session<M> {
    /// Salvages the refused parts whose turn it is.
    pub(super) fn tell_apart(&mut self) {
        self.put_on_record();
        let mut waiting = std::mem::take(&mut self.refused);
        waiting.sort_by_key(|refused| {
            let Refused { ticket, part, .. } = refused;
            (ticket.key, ticket.generation, ticket.range, part.name)
        });
        let mut waiting = waiting.into_iter().peekable();
        while let Some(first) = waiting.next() {
            let ticket = first.ticket;
            let mut later = Vec::new();
            while let Some(next) = waiting.next_if(|next| next.ticket == ticket) {
                later.push(next);
            }
            match self.ledger.open_parts(&ticket) {
                // Nobody waits for it any more.
                None => {
                    for Refused { part, records, .. } in later.iter().chain([&first]) {
                        self.count_out(part.origin.signal, *records);
                    }
                    continue;
                }
                Some(open) if open as usize == 1 + later.len() => {
                    if let Some(piece) = self.piece_on_record(&first) {
                        self.send_to_salvage(first, piece);
                    } else {
                        later.push(first);
                    }
                }
                Some(_) => later.push(first),
            }
            self.refused.append(&mut later);
        }
    }

    /// Answers jobs that reached another piece, once a commit has named it.
    fn put_on_record(&mut self) {
        self.to_record.extend(self.questions.1.try_iter());
        let free = self.shared.settings.delivery == Delivery::AtLeastOnce;
        for question in std::mem::take(&mut self.to_record) {
            let Question { ticket, apart, answer } = &question;
            if self.ledger.open_parts(ticket).is_none() {
                continue;
            }
            let noted = self.ledger.tell_apart(ticket, *apart);
            if !noted || !(free || self.ledger.is_announced(ticket)) {
                self.to_record.push(question);
            } else if answer.try_send(()).is_err() {
                tracing::debug!(range = %ticket.range, "the job that asked has ended");
            }
        }
    }

    /// A part whose salvage an earlier attempt began continues from there.
    pub(super) fn refuse_again(&mut self, ticket: Ticket<Key>, block: &Block, origin: Origin) {
        let detail = "an earlier try was refused".to_owned();
        let rejection = Rejection { reason: REFUSED_BEFORE, detail };
        let part = Part::of(block, origin);
        self.refused.push(Refused { ticket, part, records: block.records, rejection });
    }

    /// Where the salvage of a part begins, once it is recorded.
    fn piece_on_record(&mut self, refused: &Refused) -> Option<OffsetRange> {
        let Refused { ticket, part, .. } = refused;
        // A single message's rows are refused or stored, but never in pieces.
        let Some((left, _)) = ticket.range.halves() else { return Some(ticket.range) };
        let begun = self.ledger.apart(ticket).filter(|apart| apart.part == part.name);
        let apart = begun.unwrap_or(Apart { part: part.name, piece: left });
        let noted = begun.is_some() || self.ledger.tell_apart(ticket, apart);
        let free = self.shared.settings.delivery == Delivery::AtLeastOnce;
        (noted && (free || self.ledger.is_announced(ticket))).then_some(apart.piece)
    }

    fn send_to_salvage(&mut self, refused: Refused, from: OffsetRange) {
        let Refused { ticket, part, records, rejection } = refused;
        let signal = part.origin.signal;
        let Some(completion) = self.completion() else {
            self.given_up(&ticket, signal, records);
            return;
        };
        self.parts.insert(completion.part(), OpenPart::Salvage { ticket, signal, records });
        let Part { origin, name, table, day } = part;
        let record = Record { ticket, part: name, session: self.questions.0.clone() };
        self.salvage.push_back(Job { origin, table, day, from, rejection, record, completion });
    }
}
