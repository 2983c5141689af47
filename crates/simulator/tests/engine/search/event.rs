//! The possible events of a small world.

/// A possible event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    DriverGone(usize),
    DriverComes(usize),
    DriverReady(usize),
    Validated(usize),
    PluginGone(usize),
    PluginBack(usize),
    PodGone(usize),
    TestPasses(usize),
    TestGone(usize),
    /// The evicted pod is scheduled again.
    PodComes(usize),
    Ready(usize),
    /// Others remove their cordon. While it remains, it may use up the limit.
    LetGo(usize),
    /// The caches receive the current state of a node.
    Told(usize),
    HookStarts,
    Decides,
    /// The next action of a node reaches the server.
    Acts(usize),
    TimeGoesOn,
    // Faults.
    TestFails(usize),
    DriverFails(usize),
    NotReady(usize),
    Leaves(usize),
    Cordon(usize),
    Uncordon(usize),
    LabelRemoved(usize),
    RecordRemoved(usize),
    Killed,
}

impl Event {
    pub(crate) fn is_fault(self) -> bool {
        match self {
            Self::TestFails(_)
            | Self::DriverFails(_)
            | Self::NotReady(_)
            | Self::Leaves(_)
            | Self::Cordon(_)
            | Self::Uncordon(_)
            | Self::LabelRemoved(_)
            | Self::RecordRemoved(_)
            | Self::Killed => true,
            Self::DriverGone(_)
            | Self::DriverComes(_)
            | Self::DriverReady(_)
            | Self::Validated(_)
            | Self::PluginGone(_)
            | Self::PluginBack(_)
            | Self::PodGone(_)
            | Self::PodComes(_)
            | Self::TestPasses(_)
            | Self::TestGone(_)
            | Self::Ready(_)
            | Self::LetGo(_)
            | Self::Told(_)
            | Self::HookStarts
            | Self::Decides
            | Self::Acts(_)
            | Self::TimeGoesOn => false,
        }
    }
}
