//! Starts watches: creates a table, and the async task that fills it.

use std::sync::Arc;

use kube::Client;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use observed::intern::LabelInterner;
use observed::object::ApiObject;

use crate::api_collection::{ApiCollection, ResourceName};
use crate::cache::{CacheTable, WatchHealth};
use crate::granted_access::GrantedAccess;
use crate::list_watch::{ObjectSelection, follow};
use crate::sink::{ProjectedTable, Sink};
use crate::version_floor::ResourceVersionFloors;

/// Groups of tables, in the order in which problems with them are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TableGroup {
    Fleet,
    OperatorPods,
    Leases,
    Dra,
    DevicePlugin,
    Workloads,
}

/// A table that a watch fills, with any type of view.
pub(super) struct WatchedTable {
    group: TableGroup,
    /// The table's name in messages.
    pub(super) name: &'static str,
    /// The access that is granted if the table is in step. `None`: another table of the same watch
    /// has it.
    pub(super) access: Option<GrantedAccess>,
    pub(super) health: Box<dyn Fn() -> WatchHealth>,
}

/// Starts the watches of a process, each in its own async task.
pub(super) struct WatchStarter {
    pub(super) client: Client,
    pub(super) changed: Arc<Notify>,
    pub(super) interner: Arc<LabelInterner>,
    pub(super) floors: ResourceVersionFloors,
    pub(super) followers: JoinSet<()>,
    /// The group of the tables that are added next.
    group: TableGroup,
    tables: Vec<WatchedTable>,
}

/// A resource, and the namespace in which it is watched.
type Place<'a> = (ResourceName<'a>, Option<&'a str>);

impl WatchStarter {
    pub(super) fn new(client: &Client) -> Self {
        Self {
            client: client.clone(),
            changed: Arc::default(),
            interner: Arc::default(),
            floors: ResourceVersionFloors::default(),
            followers: JoinSet::new(),
            group: TableGroup::Fleet,
            tables: Vec::new(),
        }
    }

    /// Returns the added tables, in the order in which problems with them are reported.
    pub(super) fn take_tables(&mut self) -> Vec<WatchedTable> {
        let mut tables = std::mem::take(&mut self.tables);
        tables.sort_by_key(|table| table.group);
        tables
    }

    /// Adds the next tables to a group.
    pub(super) fn in_group(&mut self, group: TableGroup) -> &mut Self {
        self.group = group;
        self
    }

    /// Creates a table that stays empty because its resource is not watched.
    pub(super) fn absent<V: Clone + PartialEq>(&self) -> CacheTable<V> {
        CacheTable::absent(Arc::clone(&self.changed))
    }

    /// Adds a table for a watch to fill.
    pub(super) fn add<V: Clone + PartialEq + 'static>(
        &mut self,
        name: &'static str,
        access: Option<GrantedAccess>,
    ) -> CacheTable<V> {
        let table = CacheTable::new(Arc::clone(&self.changed));
        let health = table.clone();
        self.tables.push(WatchedTable {
            group: self.group,
            name,
            access,
            health: Box::new(move || health.health()),
        });
        table
    }

    pub(super) fn collection(&self, (resource, namespace): Place<'_>) -> ApiCollection {
        ApiCollection::new(&self.client, resource, namespace)
    }

    /// Starts the async task that fills a sink.
    pub(super) fn follow<T, S>(
        &mut self,
        collection: ApiCollection,
        selection: ObjectSelection,
        sink: S,
    ) where
        T: ApiObject + Send + Sync + 'static,
        S: Sink<T> + Send + Sync + 'static,
        S::Listed: Send,
    {
        let floor = self.floors.for_resource(&collection.address.resource);
        self.followers.spawn(follow(collection, selection, sink, floor));
    }

    /// Starts a watch that fills one table. If no task needs the watch, it is not started, and the
    /// table is absent.
    pub(super) fn table<T, V, P>(
        &mut self,
        needed: bool,
        name: &'static str,
        place: Place<'_>,
        selection: ObjectSelection,
        project: P,
    ) -> CacheTable<V>
    where
        T: ApiObject + Send + Sync + 'static,
        V: Clone + PartialEq + Send + Sync + 'static,
        P: Fn(&T) -> Option<V> + Send + Sync + 'static,
    {
        if !needed {
            return self.absent();
        }
        let collection = self.collection(place);
        let table = self.add(name, Some(GrantedAccess::new(&collection.address, selection.name())));
        self.follow(collection, selection, ProjectedTable::new(table.clone(), project));
        table
    }
}
