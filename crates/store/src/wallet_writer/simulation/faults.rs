//! Random faults, and the actions of operators.

use super::counts::EventKind;
use super::protocol::{SqlStatement, StatementReply};
use super::rows::{APPS, NUMBERS, RequestKind, WALLETS};
use super::world::{Peer, World};

impl World {
    /// The database detects that the other end of a session is gone.
    pub(super) fn find_out(&mut self, place: usize) {
        self.roll_back(place);
        self.backends.swap_remove(place);
    }

    /// Draws all random faults. Returns true when a process must crash.
    pub(super) fn chance_fault(&mut self) -> bool {
        if self.fault(self.settings.database_crash) && self.is_up {
            self.crash();
        }
        if self.fault(self.settings.session_end)
            && let Some(place) = self.any_session()
        {
            self.counts.add(EventKind::SessionEnded);
            self.kill(place);
        }
        if self.fault(self.settings.cut_off)
            && let Some(place) = self.any_session()
        {
            self.cut_off(place);
        }
        if self.fault(self.settings.credit) && self.is_up {
            self.operate_credit();
        }
        if self.fault(self.settings.pay) && self.is_up {
            self.operate_pay();
        }
        if self.fault(self.settings.refund) && self.is_up {
            self.operate_refund();
        }
        if self.fault(self.settings.hold) && self.is_up {
            self.operate_hold();
        }
        if self.fault(self.settings.freeze) && self.is_up {
            self.operate_freeze();
        }
        self.fault(self.settings.process_crash)
    }

    /// A live session of a writer.
    fn any_session(&mut self) -> Option<usize> {
        let is_alive = |place: &usize| {
            let backend = &self.backends[*place];
            backend.peer == Peer::Writer && !backend.is_dead
        };
        let sessions: Vec<usize> = (0..self.backends.len()).filter(is_alive).collect();
        (!sessions.is_empty()).then(|| self.random.one_of(&sessions))
    }

    fn operate_credit(&mut self) {
        let wallet = self.random.below(APPS * WALLETS);
        // Seldom the last wallet, which does not exist until then.
        if wallet % WALLETS == WALLETS - 1 && !self.random.chance(500) {
            return;
        }
        let coins = (self.random.between(0, 20), self.random.between(0, 20));
        self.operate(vec![
            SqlStatement::Begin,
            SqlStatement::MakeWallet(wallet),
            SqlStatement::Lock { wallets: vec![wallet], skips_held: false },
            SqlStatement::Credit { wallet, coins },
            SqlStatement::Commit,
        ]);
    }

    /// A provider reports a payment, often one that it has reported before.
    fn operate_pay(&mut self) {
        let ordered = self.tables.records.iter().flatten().map(|(row, _)| row);
        let ordered = ordered.filter(|row| row.content.kind == RequestKind::Order);
        let ordered: Vec<(usize, usize)> = ordered.map(|row| (row.number, row.content.wallet)).collect();
        if ordered.is_empty() {
            return;
        }
        let (number, wallet) = self.random.one_of(&ordered);
        let payment = if self.random.chance(8_000) { number } else { self.random.below(NUMBERS) };
        self.operate(vec![
            SqlStatement::Begin,
            SqlStatement::Lock { wallets: vec![wallet], skips_held: false },
            SqlStatement::Pay { payment, number },
            SqlStatement::Commit,
        ]);
    }

    /// A provider reports a refund of a payment that was credited, sometimes one that it has reported before.
    fn operate_refund(&mut self) {
        if self.tables.payments.is_empty() {
            return;
        }
        let (payment, number) = self.random.one_of(&self.tables.payments.clone());
        let Some((order, _)) = self.tables.records[number] else { return };
        self.operate(vec![
            SqlStatement::Begin,
            SqlStatement::Lock { wallets: vec![order.content.wallet], skips_held: false },
            SqlStatement::Refund { payment, number },
            SqlStatement::Commit,
        ]);
    }

    fn operate_freeze(&mut self) {
        let wallet = self.random.below(APPS * WALLETS);
        self.operate(vec![
            SqlStatement::Begin,
            SqlStatement::Lock { wallets: vec![wallet], skips_held: false },
            SqlStatement::Freeze(wallet),
            SqlStatement::Commit,
        ]);
    }

    fn operate_hold(&mut self) {
        let wallet = self.random.below(APPS * WALLETS);
        let until = self.now + self.random.one_of(&[50, 300, 1_500]);
        self.operate(vec![
            SqlStatement::Begin,
            SqlStatement::Lock { wallets: vec![wallet], skips_held: false },
            SqlStatement::Hold { until },
            SqlStatement::RollBack,
        ]);
    }

    /// The database ends a session. Its transaction is lost, and sometimes also replies that were
    /// sent.
    pub(super) fn kill(&mut self, place: usize) {
        self.roll_back(place);
        let loses_replies = self.random.chance(5_000);
        let backend = &mut self.backends[place];
        backend.is_dead = true;
        backend.waits = None;
        if loses_replies {
            for (_, answer) in backend.outbox.drain(..) {
                self.counts.add(if matches!(answer, Ok(StatementReply::Committed)) {
                    EventKind::CommitLost
                } else {
                    EventKind::ReplyLost
                });
            }
        }
        if backend.peer != Peer::Writer {
            self.backends.swap_remove(place);
        }
    }

    /// A session is cut off. Its writer learns it at once, or later by itself. The database goes on
    /// and detects it later.
    fn cut_off(&mut self, place: usize) {
        self.counts.add(EventKind::Stranded);
        let tells = self.random.chance(5_000);
        let backend = &mut self.backends[place];
        backend.peer = Peer::CutOff;
        if tells {
            backend.outbox.clear();
            for asked in &mut backend.queue {
                asked.reply = None;
            }
            backend.end.is_ended.set(true);
            if let Some(waker) = backend.end.waker.take() {
                waker.wake();
            }
        }
    }

    /// The database crashes: open transactions are lost, and commits stay.
    fn crash(&mut self) {
        self.counts.add(EventKind::DatabaseCrash);
        self.is_up = false;
        for place in (0..self.backends.len()).rev() {
            if self.backends[place].transaction.is_some() {
                self.counts.add(EventKind::CrashInside);
            }
            self.kill(place);
        }
    }
}
