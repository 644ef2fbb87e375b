//! The boundary to C: loading of shared objects, calls of handlers, the functions that handlers
//! call, signals that handlers cause, and marks of those that run. All `unsafe` code of the crate
//! is here.
//!
//! The C code runs in this process and can do anything. Nothing here protects from code that writes
//! outside its memory. What is promised is that correct C code is run correctly.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};
use std::sync::{Arc, Once, OnceLock};
use std::time::Duration;

use exec::{DropReason, HandlerCall, MAX_REASON_BYTES, PacketContext, State};

use crate::host;
use crate::load::{HandlerCode, LoadError, TableCode, number};
use crate::state::{VariableForm, VariableKind};
use crate::watchdog;

/// Function that the C wrapper of a handler is: context, request and response.
type Wrapper = unsafe extern "C" fn(*mut Context<'_>, *const u64, *mut u64) -> i32;

/// Shared object in memory. It is unloaded when the last handler is dropped.
#[derive(Debug)]
pub(crate) struct Library {
    handle: NonNull<c_void>,
}

// SAFETY: the loader's functions may be called from any thread.
unsafe impl Send for Library {}
// SAFETY: as above, also at the same time.
unsafe impl Sync for Library {}

/// Descriptor of a variable or pool in C (`struct clip_variable`).
#[repr(C)]
struct Descriptor {
    name: *const c_char,
    size: u64,
    kind: u32,
    index: AtomicU32,
}

/// Returns the loader's last message.
fn loader_message() -> String {
    // SAFETY: `dlerror` has no conditions.
    let message = unsafe { libc::dlerror() };
    if message.is_null() {
        return "unknown error".to_owned();
    }
    // SAFETY:
    // - the message is not null, so it is a text that ends with a zero byte;
    // - it is valid until the next call of a loader's function on this thread.
    let message = unsafe { CStr::from_ptr(message) };
    message.to_string_lossy().into_owned()
}

impl Library {
    /// Loads a shared object and resolves all of its symbols.
    pub(crate) fn open(path: &Path) -> Result<Library, LoadError> {
        let failed = |message: String| match message.split_once("undefined symbol: ") {
            Some((_, rest)) => LoadError::UndefinedSymbol {
                name: rest.split([' ', ',']).next().unwrap_or(rest).to_owned(),
            },
            None => LoadError::Loader { message },
        };
        let path = CString::new(path.as_os_str().as_bytes());
        let path = path.map_err(|error| failed(error.to_string()))?;
        // SAFETY:
        // - `path` is a text that ends with a zero byte;
        // - the object comes from the compiler that the user chose and the user's code, so its
        //   constructors are the user's.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        match NonNull::new(handle) {
            Some(handle) => Ok(Library { handle }),
            None => Err(failed(loader_message())),
        }
    }

    fn symbol(&self, name: &str) -> Result<NonNull<c_void>, LoadError> {
        let missing = || LoadError::UndefinedSymbol {
            name: name.to_owned(),
        };
        let text = CString::new(name).map_err(|_| missing())?;
        // SAFETY: the handle is open, and `text` ends with a zero byte.
        let symbol = unsafe { libc::dlsym(self.handle.as_ptr(), text.as_ptr()) };
        NonNull::new(symbol).ok_or_else(missing)
    }

    /// Returns the wrapper with this name.
    pub(crate) fn function(library: &Arc<Library>, name: &str) -> Result<Function, LoadError> {
        let symbol = library.symbol(name)?;
        // SAFETY:
        // - only generated code defines this name, with this type;
        // - `Function` keeps the library loaded.
        let wrapper = unsafe { std::mem::transmute::<*mut c_void, Wrapper>(symbol.as_ptr()) };
        Ok(Function {
            wrapper,
            _library: Arc::clone(library),
        })
    }

    fn descriptor(&self, name: &str) -> Result<&Descriptor, LoadError> {
        let symbol = self.symbol(&format!("clip_var_{name}"))?;
        // SAFETY:
        // - the compilation has checked that the symbol has the size of a descriptor, and the
        //   macros of `clip.h` define it;
        // - the loader aligns it, and it is loaded as long as the library;
        // - only the index changes, which is atomic here. C code reads it, and it is written before
        //   the code runs, later only with the same value.
        Ok(unsafe { symbol.cast::<Descriptor>().as_ref() })
    }

    /// Returns the form of a variable or pool.
    pub(crate) fn variable(&self, name: &str) -> Result<VariableForm, LoadError> {
        let descriptor = self.descriptor(name)?;
        let kind = match descriptor.kind {
            0 => VariableKind::Worker,
            1 => VariableKind::Shared,
            2 => VariableKind::Pool,
            other => {
                let message = format!("`clip_var_{name}` has the unknown kind {other}");
                return Err(LoadError::Loader { message });
            }
        };
        Ok(VariableForm {
            name: name.to_owned(),
            kind,
            size: descriptor.size,
        })
    }

    /// Sets the index by which the code accesses a variable or pool.
    pub(crate) fn set_index(&self, name: &str, index: u32) {
        if let Ok(descriptor) = self.descriptor(name) {
            descriptor.index.store(index, Relaxed);
        }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the handle is open, and no function of it is kept.
        unsafe { libc::dlclose(self.handle.as_ptr()) };
    }
}

/// Returns true if libc or libm define a symbol.
pub(crate) fn is_in_system(name: &str) -> bool {
    static LIBM: OnceLock<bool> = OnceLock::new();
    LIBM.get_or_init(|| {
        // SAFETY: the name ends with a zero byte. The library stays loaded.
        let libm =
            unsafe { libc::dlopen(c"libm.so.6".as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        !libm.is_null()
    });
    let Ok(name) = CString::new(name) else {
        return false;
    };
    // SAFETY: `RTLD_DEFAULT` is a valid handle, and the name ends with a zero byte.
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    !symbol.is_null()
}

/// Context of a call (`struct clip`). The first members are C's.
#[repr(C)]
pub(crate) struct Context<'c> {
    host: *const Host,
    variables: *const AtomicPtr<u8>,
    server: u32,
    payload_index: u32,
    payload_length: u32,
    reserved: u32,
    packet: &'c mut PacketContext,
    state: &'c State,
    code: &'c HandlerCode,
}

/// Wrapper of a handler.
#[derive(Debug)]
pub(crate) struct Function {
    wrapper: Wrapper,
    _library: Arc<Library>,
}

impl Function {
    /// Calls the handler. Returns 0, or the number that its C code returned. Request and response
    /// must have the limbs of the handler's records.
    pub(crate) fn call(
        &self,
        name: &'static HandlerName,
        code: &HandlerCode,
        variables: &[AtomicPtr<u8>],
        call: HandlerCall<'_>,
    ) -> i32 {
        let (request, response) = (call.request.as_ptr(), call.response.as_mut_ptr());
        let mut context = Context {
            host: &HOST,
            variables: variables.as_ptr(),
            server: code.server,
            payload_index: 0,
            payload_length: u32::MAX,
            reserved: 0,
            packet: call.packet,
            state: call.state,
            code,
        };
        let mark = Mark::of_thread();
        let turn = mark.begin(name, context.packet.random.packet_number());
        // SAFETY:
        // - the wrapper reads and writes as many limbs as the records have, which the caller has
        //   checked, and the interface of the code is the program's;
        // - the context and what it refers to live until the call returns, and nothing else uses
        //   them meanwhile;
        // - the functions of `HOST` do not unwind.
        let result = unsafe { (self.wrapper)(&raw mut context, request, response) };
        mark.end(turn);
        result
    }
}

/// Functions that handlers call (`struct clip_host`).
#[repr(C)]
struct Host {
    find: unsafe extern "C" fn(*mut Context<'_>, u32, *const u64, *mut u64, *mut u32) -> i32,
    insert: unsafe extern "C" fn(*mut Context<'_>, u32, *const u64, u32, *const u64, u64) -> i32,
    modify: unsafe extern "C" fn(*mut Context<'_>, u32, *const u64, u32, *const u64) -> i32,
    remove: unsafe extern "C" fn(*mut Context<'_>, u32, *const u64) -> i32,
    drop: unsafe extern "C" fn(*mut Context<'_>, *const c_char) -> i32,
    lease: unsafe extern "C" fn(*mut Context<'_>, u32, *mut u32) -> u32,
    release: unsafe extern "C" fn(*mut Context<'_>, u32, u32) -> i32,
    bytes: unsafe extern "C" fn(*mut Context<'_>, u32, u32) -> *mut u8,
    payload: unsafe extern "C" fn(*mut Context<'_>, *mut u32) -> *const u8,
    now: unsafe extern "C" fn(*mut Context<'_>) -> u64,
    random: unsafe extern "C" fn(*mut Context<'_>) -> u64,
    log: unsafe extern "C" fn(*mut Context<'_>, *const c_char, u32),
}

static HOST: Host = Host {
    find,
    insert,
    modify,
    remove,
    drop: drop_packet,
    lease,
    release,
    bytes,
    payload,
    now,
    random,
    log,
};

/// Returns the context that a handler passes.
///
/// # Safety
/// `context` is the one that the handler got, and no other reference to it is used.
unsafe fn of<'a, 'c>(context: *mut Context<'c>) -> &'a mut Context<'c> {
    // SAFETY: by the conditions of this function.
    unsafe { &mut *context }
}

/// Returns the table and the key that generated code passes.
///
/// # Safety
/// `key` has the limbs of the table's key.
unsafe fn key_of(code: &HandlerCode, table: u32, key: *const u64) -> Option<(&TableCode, &[u64])> {
    let table = code.table(table)?;
    // SAFETY: generated code declares the array with the number of limbs that `TableCode` has.
    Some((table, unsafe {
        std::slice::from_raw_parts(key, table.key_limbs)
    }))
}

unsafe extern "C" fn find(
    context: *mut Context<'_>,
    table: u32,
    key: *const u64,
    params: *mut u64,
    action: *mut u32,
) -> i32 {
    // SAFETY: a handler passes its context, and generated code the key.
    let context = unsafe { of(context) };
    // SAFETY: as above.
    let Some((table, key)) = (unsafe { key_of(context.code, table, key) }) else {
        return 0;
    };
    // SAFETY: generated code declares the array with the number of limbs that `TableCode` has.
    let params = unsafe { std::slice::from_raw_parts_mut(params, table.param_limbs) };
    params.fill(0);
    let Some(position) = host::find(table, context.state, key, params) else {
        return 0;
    };
    // SAFETY: generated code passes the address of its variable.
    unsafe { action.write(position) };
    1
}

unsafe extern "C" fn insert(
    context: *mut Context<'_>,
    table: u32,
    key: *const u64,
    action: u32,
    params: *const u64,
    idle_ns: u64,
) -> i32 {
    // SAFETY: a handler passes its context, and generated code the key.
    let context = unsafe { of(context) };
    // SAFETY: as above.
    let Some((table, key)) = (unsafe { key_of(context.code, table, key) }) else {
        return host::INVALID;
    };
    // SAFETY: generated code declares the array with the number of limbs that `TableCode` has.
    let params = unsafe { std::slice::from_raw_parts(params, table.param_limbs) };
    let now = context.packet.now.0;
    host::insert(table, context.state, (key, action, params), idle_ns, now)
}

unsafe extern "C" fn modify(
    context: *mut Context<'_>,
    table: u32,
    key: *const u64,
    action: u32,
    params: *const u64,
) -> i32 {
    // SAFETY: a handler passes its context, and generated code the key.
    let context = unsafe { of(context) };
    // SAFETY: as above.
    let Some((table, key)) = (unsafe { key_of(context.code, table, key) }) else {
        return 0;
    };
    // SAFETY: generated code declares the array with the number of limbs that `TableCode` has.
    let params = unsafe { std::slice::from_raw_parts(params, table.param_limbs) };
    host::modify(table, context.state, (key, action, params)).into()
}

unsafe extern "C" fn remove(context: *mut Context<'_>, table: u32, key: *const u64) -> i32 {
    // SAFETY: a handler passes its context, and generated code the key.
    let context = unsafe { of(context) };
    // SAFETY: as above.
    let Some((table, key)) = (unsafe { key_of(context.code, table, key) }) else {
        return 0;
    };
    host::delete(table, context.state, key).into()
}

unsafe extern "C" fn drop_packet(_: *mut Context<'_>, why: *const c_char) -> i32 {
    let mut name = [0; MAX_REASON_BYTES];
    let mut length = 0;
    if !why.is_null() {
        for place in &mut name {
            // SAFETY: the handler passes a text that ends with a zero byte, and no byte before this
            // one was zero.
            let byte = unsafe { why.add(length).read() } as u8;
            if byte == 0 {
                break;
            }
            *place = byte;
            length += 1;
        }
    }
    number(DropReason::named(&name[..length]))
}

unsafe extern "C" fn lease(context: *mut Context<'_>, pool: u32, first: *mut u32) -> u32 {
    // SAFETY: a handler passes its context.
    let context = unsafe { of(context) };
    if first.is_null() {
        return 0;
    }
    match host::lease(context.code, pool) {
        Some((value, count)) => {
            // SAFETY: the handler passes the address of its variable, which is not null.
            unsafe { first.write(value) };
            count
        }
        None => 0,
    }
}

unsafe extern "C" fn release(context: *mut Context<'_>, pool: u32, first: u32) -> i32 {
    // SAFETY: a handler passes its context.
    let context = unsafe { of(context) };
    host::release(context.code, pool, first).into()
}

unsafe extern "C" fn bytes(context: *mut Context<'_>, at: u32, len: u32) -> *mut u8 {
    // SAFETY: a handler passes its context.
    let context = unsafe { of(context) };
    host::bytes(context.packet, at, len).map_or(ptr::null_mut(), <[u8]>::as_mut_ptr)
}

unsafe extern "C" fn payload(context: *mut Context<'_>, len: *mut u32) -> *const u8 {
    // SAFETY: a handler passes its context.
    let context = unsafe { of(context) };
    let (index, length) = (context.payload_index, context.payload_length);
    let payload = host::payload(context.packet, index, length);
    if !len.is_null() {
        let length = payload.map_or(0, <[u8]>::len) as u32;
        // SAFETY: the handler passes the address of its variable, which is not null.
        unsafe { len.write(length) };
    }
    payload.map_or(ptr::null(), <[u8]>::as_ptr)
}

unsafe extern "C" fn now(context: *mut Context<'_>) -> u64 {
    // SAFETY: a handler passes its context.
    unsafe { of(context) }.packet.now.0
}

unsafe extern "C" fn random(context: *mut Context<'_>) -> u64 {
    // SAFETY: a handler passes its context.
    unsafe { of(context) }.packet.random.next_u64()
}

unsafe extern "C" fn log(context: *mut Context<'_>, text: *const c_char, len: u32) {
    // SAFETY: a handler passes its context.
    let context = unsafe { of(context) };
    // SAFETY: `clip_log` passes its buffer, of which it has written `len` bytes.
    let text = unsafe { std::slice::from_raw_parts(text.cast(), len as usize) };
    host::log(context.packet, text);
}

/// Name of a handler, for marks. It is never freed: other threads read it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HandlerName(pub(crate) String);

/// Mark of a thread: the handler that runs on it. Marks are never freed, and used again by later
/// threads.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Mark {
    /// Number of calls that have begun and ended: odd while a handler runs.
    turns: AtomicU64,
    handler: AtomicPtr<HandlerName>,
    packet: AtomicU64,
}

/// Call of a handler that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunningCall {
    turn: u64,
    handler: &'static HandlerName,
    /// Number of the packet at its worker.
    packet: u64,
}

thread_local! {
    /// Mark of this thread, once a handler has run on it. It has no destructor, so signal handlers
    /// may read it.
    static MARK: Cell<Option<&'static Mark>> = const { Cell::new(None) };
}

impl Mark {
    /// Returns the mark of this thread.
    #[inline]
    fn of_thread() -> &'static Mark {
        MARK.get().unwrap_or_else(Mark::make_of_thread)
    }

    #[cold]
    #[inline(never)]
    fn make_of_thread() -> &'static Mark {
        let mark = watchdog::mark_of_thread();
        MARK.set(Some(mark));
        mark
    }

    /// Notes that a handler begins. Returns the turn, for [`Mark::end`].
    #[inline]
    fn begin(&self, handler: &'static HandlerName, packet: u64) -> u64 {
        self.handler
            .store(ptr::from_ref(handler).cast_mut(), Relaxed);
        self.packet.store(packet, Relaxed);
        // Only this thread writes, so there is no need for a read-modify-write operation.
        let turn = self.turns.load(Relaxed).wrapping_add(1);
        self.turns.store(turn, Release);
        turn
    }

    /// Notes that the handler has ended.
    #[inline]
    fn end(&self, turn: u64) {
        self.turns.store(turn.wrapping_add(1), Release);
    }

    /// Returns the call that runs.
    pub(crate) fn running(&self) -> Option<RunningCall> {
        let turn = self.turns.load(Acquire);
        if turn.is_multiple_of(2) {
            return None;
        }
        // SAFETY: the pointer is null or comes from a reference that is valid for ever.
        let handler = unsafe { self.handler.load(Relaxed).as_ref() }?;
        let packet = self.packet.load(Relaxed);
        Some(RunningCall {
            turn,
            handler,
            packet,
        })
    }
}

/// Clock of the processor time that a thread has used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadClock(libc::clockid_t);

impl ThreadClock {
    /// Returns the clock of this thread; `None` if the system has none.
    pub(crate) fn of_thread() -> Option<ThreadClock> {
        let mut clock = 0;
        // SAFETY: the thread exists, and the pointer is valid.
        let failed = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &mut clock) };
        (failed == 0).then_some(ThreadClock(clock))
    }

    /// Returns the time that the thread has used; `None` if it has ended.
    pub(crate) fn now(self) -> Option<Duration> {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the pointer is valid. An unknown clock is an error.
        let failed = unsafe { libc::clock_gettime(self.0, &mut time) };
        let nanos = u32::try_from(time.tv_nsec).ok()?;
        (failed == 0).then(|| Duration::new(time.tv_sec as u64, nanos))
    }
}

/// Signals that C code causes, with their names.
const SIGNALS: [(c_int, &[u8]); 5] = [
    (libc::SIGSEGV, b"SIGSEGV"),
    (libc::SIGBUS, b"SIGBUS"),
    (libc::SIGFPE, b"SIGFPE"),
    (libc::SIGILL, b"SIGILL"),
    (libc::SIGABRT, b"SIGABRT"),
];

/// Actions of the signals before.
static BEFORE: OnceLock<[libc::sigaction; SIGNALS.len()]> = OnceLock::new();

/// Installs the signal handlers, once in a process.
pub(crate) fn watch_signals() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let before = SIGNALS.map(|(signal, _)| {
            // SAFETY: all bits zero are a valid `sigaction`.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            // SAFETY: the pointer is null or valid, and the signal exists.
            unsafe { libc::sigaction(signal, ptr::null(), &mut action) };
            action
        });
        let _ = BEFORE.set(before);
        for (signal, _) in SIGNALS {
            // SAFETY: all bits zero are a valid `sigaction`.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            let function: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_signal;
            action.sa_sigaction = function as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            // SAFETY:
            // - `on_signal` has the type for `SA_SIGINFO`, and calls only functions that are safe
            //   in signal handlers;
            // - the standard library gives each thread a stack for signal handlers.
            unsafe { libc::sigaction(signal, &action, ptr::null_mut()) };
        }
    });
}

/// Ends the process if a handler of this thread caused the signal. Otherwise the former action gets
/// it.
extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    let at = SIGNALS.iter().position(|(known, _)| *known == signal);
    if let Some(call) = MARK.get().and_then(Mark::running) {
        let name = at.map_or(&b"a signal"[..], |at| SIGNALS[at].1);
        end_process(call, &[b"ended with ", name]);
    }
    let before = at.and_then(|at| BEFORE.get()?.get(at));
    let Some(before) = before else { return };
    // SAFETY: the action was read from the kernel, and `info` is the kernel's.
    unsafe {
        libc::sigaction(signal, before, ptr::null_mut());
        // A fault occurs again. A signal of a process does not.
        if (*info).si_code <= 0 {
            libc::raise(signal);
        }
    }
}

/// Ends the process with one line: what became of a call. Signal handlers may call it.
pub(crate) fn end_process(call: RunningCall, what: &[&[u8]]) -> ! {
    let name = call.handler.0.as_bytes();
    let mut line = Line::default();
    line.push(b"error: the C handler `");
    line.push(&name[..name.len().min(128)]);
    line.push(b"` ");
    what.iter().for_each(|part| line.push(part));
    line.push(b" at packet ");
    line.push_number(call.packet);
    line.push(b"\n");
    let text = &line.bytes[..line.length];
    // SAFETY: the buffer has these bytes. Both functions are safe in signal handlers.
    unsafe {
        libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len());
        libc::_exit(1);
    }
}

/// Line of text without allocation.
struct Line {
    bytes: [u8; 256],
    length: usize,
}

impl Default for Line {
    fn default() -> Self {
        Line {
            bytes: [0; 256],
            length: 0,
        }
    }
}

impl Line {
    fn push(&mut self, text: &[u8]) {
        for &byte in text {
            if let Some(place) = self.bytes.get_mut(self.length) {
                *place = byte;
                self.length += 1;
            }
        }
    }

    fn push_number(&mut self, mut number: u64) {
        let mut digits = [0; 20];
        let mut first = digits.len();
        loop {
            first -= 1;
            digits[first] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.push(&digits[first..]);
    }
}
