//! State of handlers: stateful variables and pools, by name. It outlives the code that uses it.

use std::collections::BTreeMap;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use table::CounterShard;

use crate::load::LoadError;
use crate::pool::{Pool, PoolPart};

/// Maximum number of workers that have variables of their own.
const MAX_LANES: usize = 1024;

/// Maximum size of a variable in bytes.
pub const MAX_VARIABLE_BYTES: u64 = 1 << 30;

/// State of the handlers of one device or server. The caller keeps it, and passes it to each
/// [`load`](crate::load()). Code that is loaded later takes over the variables by name and size.
#[derive(Debug, Default)]
pub struct HandlerState {
    known: Mutex<Known>,
    /// Pools that the servers of a group share.
    pools: Arc<Mutex<BTreeMap<String, Arc<Variable>>>>,
    /// Part of the pools that these servers lease.
    part: PoolPart,
}

/// Variables of the code that was loaded last.
#[derive(Debug, Default)]
struct Known {
    variables: BTreeMap<String, Arc<Variable>>,
    /// Addresses that workers have used.
    lanes: Option<Weak<[OnceLock<Addresses>]>>,
}

/// Kind of a variable, as its descriptor in C has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VariableKind {
    /// `CLIP_STATE`.
    Worker,
    /// `CLIP_SHARED`.
    Shared,
    /// `CLIP_POOL`.
    Pool,
}

/// Name, kind and size of a variable. The size of a pool is its number of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VariableForm {
    pub(crate) name: String,
    pub(crate) kind: VariableKind,
    pub(crate) size: u64,
}

/// Variable or pool.
#[derive(Debug)]
pub(crate) struct Variable {
    form: VariableForm,
    memory: VariableMemory,
}

#[derive(Debug)]
enum VariableMemory {
    Worker(Box<[OnceLock<Block>]>),
    Shared(Block),
    Pool(Pool),
}

/// Cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Line([AtomicU64; 8]);

/// Memory of a variable: zero at first. C code accesses it through a pointer, so it is of atomics.
#[derive(Debug)]
struct Block(Box<[Line]>);

impl Block {
    fn new(size: u64) -> Block {
        let lines = size.div_ceil(size_of::<Line>() as u64).max(1);
        Block((0..lines).map(|_| Line::default()).collect())
    }

    fn pointer(&self) -> *mut u8 {
        // An atomic gives a pointer through which its memory may be written.
        self.0
            .first()
            .map_or(ptr::null_mut(), |line| line.0[0].as_ptr().cast())
    }
}

impl Variable {
    fn new(form: VariableForm, part: PoolPart) -> Variable {
        let size = form.size;
        let memory = match form.kind {
            VariableKind::Worker => {
                VariableMemory::Worker((0..MAX_LANES).map(|_| OnceLock::new()).collect())
            }
            VariableKind::Shared => VariableMemory::Shared(Block::new(size)),
            VariableKind::Pool => VariableMemory::Pool(Pool::new(size as u32, part)),
        };
        Variable { form, memory }
    }

    /// Returns the address of the variable for a worker; null for a pool.
    fn pointer(&self, lane: usize) -> *mut u8 {
        match &self.memory {
            VariableMemory::Worker(lanes) => {
                let block = lanes[lane].get_or_init(|| Block::new(self.form.size));
                block.pointer()
            }
            VariableMemory::Shared(block) => block.pointer(),
            VariableMemory::Pool(_) => ptr::null_mut(),
        }
    }
}

impl HandlerState {
    /// Creates the state of another server of the group: its pools are the same, so no value is
    /// leased twice.
    pub fn of_same_group(&self) -> HandlerState {
        HandlerState {
            known: Mutex::default(),
            pools: Arc::clone(&self.pools),
            part: self.part,
        }
    }

    /// Creates the state of servers that lease only one of `of` equal parts of each pool: other
    /// processes lease the others.
    pub fn of_part(part: u32, of: u32) -> HandlerState {
        let of = of.max(1);
        HandlerState {
            part: PoolPart {
                part: part % of,
                of,
            },
            ..HandlerState::default()
        }
    }

    /// Returns the pools that code of the group has loaded so far.
    pub fn pools(&self) -> Vec<PoolLeases> {
        let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools
            .values()
            .map(|pool| PoolLeases(Arc::clone(pool)))
            .collect()
    }

    /// Returns the group's pool of this form.
    fn pool(&self, form: &VariableForm) -> Arc<Variable> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        match pools.get(&form.name) {
            Some(pool) if pool.form == *form => Arc::clone(pool),
            _ => {
                let pool = Arc::new(Variable::new(form.clone(), self.part));
                pools.insert(form.name.clone(), Arc::clone(&pool));
                pool
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the names of the variables and pools.
    pub fn names(&self) -> Vec<String> {
        self.lock().variables.keys().cloned().collect()
    }

    /// Checks that code with variables of these forms can take over the state.
    ///
    /// # Errors
    /// A variable would be lost, or is too large.
    pub(crate) fn check(&self, forms: &[VariableForm], may_lose: bool) -> Result<(), LoadError> {
        check(&self.lock().variables, forms, may_lose)
    }

    /// Returns the variables with these forms: those that exist already, and new ones. With
    /// `may_lose`, variables of another form are replaced, and others are removed.
    ///
    /// # Errors
    /// A variable would be lost, or is too large. The state is unchanged.
    pub(crate) fn take_over(
        &self,
        forms: &[VariableForm],
        may_lose: bool,
    ) -> Result<Variables, LoadError> {
        let mut known = self.lock();
        check(&known.variables, forms, may_lose)?;
        let slots: Box<[_]> = forms
            .iter()
            .map(|form| match known.variables.get(&form.name) {
                Some(variable) if variable.form == *form => Arc::clone(variable),
                _ if form.kind == VariableKind::Pool => self.pool(form),
                _ => Arc::new(Variable::new(form.clone(), self.part)),
            })
            .collect();
        let named = forms.iter().map(|form| form.name.clone());
        known.variables = named.zip(slots.iter().cloned()).collect();
        let variables = Variables {
            slots,
            lanes: (0..MAX_LANES).map(|_| OnceLock::new()).collect(),
        };
        let before = known.lanes.replace(Arc::downgrade(&variables.lanes));
        // Workers that are running need not make their variables when they first call the code.
        if let Some(before) = before.and_then(|lanes| lanes.upgrade()) {
            let used = before.iter().zip(0..);
            for (_, lane) in used.filter(|(lane, _)| lane.get().is_some()) {
                variables.lane(CounterShard::new(lane));
            }
        }
        Ok(variables)
    }
}

fn check(
    known: &BTreeMap<String, Arc<Variable>>,
    forms: &[VariableForm],
    may_lose: bool,
) -> Result<(), LoadError> {
    let removed = known
        .keys()
        .find(|name| !forms.iter().any(|form| form.name == **name));
    if let (Some(name), false) = (removed, may_lose) {
        return Err(LoadError::RemovedVariable { name: name.clone() });
    }
    for form in forms {
        let limit = match form.kind {
            VariableKind::Pool => u32::MAX.into(),
            _ => MAX_VARIABLE_BYTES,
        };
        let name = || form.name.clone();
        if form.size > limit {
            return Err(LoadError::TooLarge {
                name: name(),
                limit,
            });
        }
        let before = known.get(&form.name).map(|variable| &variable.form);
        if let (Some(before), false) = (before.filter(|before| *before != form), may_lose) {
            return Err(LoadError::ChangedVariable {
                name: name(),
                before: before.size,
                now: form.size,
            });
        }
    }
    Ok(())
}

/// A pool of a group, with the leases of its values.
#[derive(Clone, Debug)]
pub struct PoolLeases(Arc<Variable>);

impl PoolLeases {
    fn pool(&self) -> Option<&Pool> {
        match &self.0.memory {
            VariableMemory::Pool(pool) => Some(pool),
            _ => None,
        }
    }

    /// Returns the name of the pool in C.
    pub fn name(&self) -> &str {
        &self.0.form.name
    }

    /// Returns the number of values.
    pub fn size(&self) -> u32 {
        self.0.form.size as u32
    }

    /// Returns the number of values that are leased together, but for the last ones.
    pub fn chunk(&self) -> u32 {
        self.pool().map_or(1, Pool::chunk)
    }

    /// Returns the number of the server that has leased a value in this process.
    pub fn owner(&self, value: u32) -> Option<u32> {
        self.pool()?.owner(value)
    }
}

/// Addresses of the variables of one worker.
type Addresses = Box<[AtomicPtr<u8>]>;

/// Variables of loaded code, by the index that the code uses.
#[derive(Debug)]
pub(crate) struct Variables {
    slots: Box<[Arc<Variable>]>,
    /// Addresses of the variables, by worker.
    lanes: Arc<[OnceLock<Addresses>]>,
}

impl Variables {
    /// Returns the addresses of a worker's variables. Only the first call for a worker allocates.
    /// `None` if there are too many workers.
    pub(crate) fn lane(&self, lane: CounterShard) -> Option<&[AtomicPtr<u8>]> {
        let at = bits::Id::index(lane);
        let addresses = || {
            let slots = self.slots.iter();
            slots.map(|slot| AtomicPtr::new(slot.pointer(at))).collect()
        };
        Some(self.lanes.get(at)?.get_or_init(addresses))
    }

    /// Returns a pool.
    pub(crate) fn pool(&self, index: u32) -> Option<&Pool> {
        match &self.slots.get(index as usize)?.memory {
            VariableMemory::Pool(pool) => Some(pool),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(name: &str, kind: VariableKind, size: u64) -> VariableForm {
        VariableForm {
            name: name.to_owned(),
            kind,
            size,
        }
    }

    #[test]
    fn later_code_takes_over_variables_of_the_same_form() {
        use VariableKind::{Pool, Shared, Worker};
        let state = HandlerState::default();
        let forms = [
            form("a", Worker, 100),
            form("b", Shared, 8),
            form("p", Pool, 10),
        ];
        let first = state.take_over(&forms, false).unwrap();
        let lane = |variables: &Variables, lane: u32| {
            let addresses = variables.lane(CounterShard::new(lane)).unwrap();
            let address = |one: &AtomicPtr<u8>| one.load(std::sync::atomic::Ordering::Relaxed);
            addresses.iter().map(address).collect::<Vec<_>>()
        };
        assert_ne!(lane(&first, 0)[0], lane(&first, 1)[0]);
        assert_eq!(lane(&first, 0)[1], lane(&first, 1)[1]);
        assert_eq!(lane(&first, 0)[0] as usize % 64, 0);
        assert!(first.lane(CounterShard::new(MAX_LANES as u32)).is_none());
        let second = state.take_over(&forms, false).unwrap();
        assert_eq!(lane(&first, 1), lane(&second, 1));
        assert!(first.pool(2).unwrap().release(0) == first.pool(0).is_some());
        let refused = |forms: &[VariableForm]| {
            let error = state.take_over(forms, false).unwrap_err();
            assert_eq!(state.names(), ["a", "b", "p"]);
            error.to_string()
        };
        assert!(refused(&forms[..2]).contains("`p`"));
        let mut changed = forms.clone();
        changed[0].size = 101;
        assert!(refused(&changed).contains("`a`"));
        changed[0].size = MAX_VARIABLE_BYTES + 1;
        assert!(refused(&changed).contains("`a`"));
        changed[0].size = 200;
        let third = state.take_over(&changed[..2], true).unwrap();
        assert_eq!(lane(&first, 0)[1], lane(&third, 0)[1]);
        assert_eq!(state.names(), ["a", "b"]);
    }
}
