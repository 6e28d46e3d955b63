//! Objects of programs as keys: operations on keys have the effects that the language defines for
//! operations on objects.

use solera_data::{Context, Dot, Op, State, View, execute};
use solera_program::ir::{Program, Struct, VERSION};
use solera_program::keys::{Call, CallError, operation_of, type_of};
use solera_program::objects::signature;
use solera_program::operation::ObjectOp;
use solera_program::types::{Object, StoreId, StructId, Type};
use solera_program::value::Value;
use solera_time::{SiteId, Timestamp, Vector};

const HERE: SiteId = SiteId(0);

fn program() -> Program {
    let user = vec![("name".into(), Type::String), ("age".into(), Type::Int)];
    let (user, none) = (("User", user), ("Nothing", Vec::new()));
    let structs = [user, none].map(|(name, fields)| Struct { name: name.into(), fields });
    Program {
        version: VERSION,
        stores: Vec::new(),
        structs: structs.into(),
        objects: Vec::new(),
        functions: Vec::new(),
        transactions: Vec::new(),
    }
}

/// An object that is stored in a key of a replica.
struct Kept {
    program: Program,
    object: Object,
    state: State,
    done: u64,
}

impl Kept {
    fn new(object: Object) -> Kept {
        Kept { program: program(), object, state: State::new(), done: 0 }
    }

    /// Performs an operation as its own transaction.
    fn perform(&mut self, op: ObjectOp, args: &[Value]) -> Result<Option<Value>, CallError> {
        let known = signature(&self.program, &self.object, StoreId(0), op);
        let result = known.map_or(Type::Unit, |known| known.result);
        let (program, object) = (&self.program, &self.object);
        let call = Call { program, object, op, args, result: &result };
        self.done += 1;
        let op = call.on_key(|| format!("{:04}", self.done).into_bytes())?;
        let (outcome, effect) = execute(&op, &View::new(&self.state)).unwrap();
        if let Some(effect) = &effect {
            let dot = Dot::of(HERE, Timestamp(self.done));
            let observed = Vector::zero(1).with(HERE, Timestamp(self.done - 1));
            self.state.apply(effect, Context { dot, observed: &observed });
        }
        call.answer(outcome)
    }

    fn does(&mut self, op: ObjectOp, args: &[Value]) {
        assert_eq!(self.perform(op, args), Ok(Some(Value::Unit)), "{op:?}");
    }

    fn returns(&mut self, op: ObjectOp, args: &[Value], expected: Value) {
        assert_eq!(self.perform(op, args), Ok(Some(expected)), "{op:?}");
    }
}

#[test]
fn registers_and_counters_are_stored_in_keys() {
    let mut register = Kept::new(Object::Register(Type::Int));
    register.returns(ObjectOp::Exists, &[], Value::Bool(false));
    register.returns(ObjectOp::Get, &[], Value::NONE);
    assert_eq!(register.perform(ObjectOp::Load, &[]), Ok(None));
    register.does(ObjectOp::Put, &[Value::Int(7)]);
    register.returns(ObjectOp::Load, &[], Value::Int(7));
    register.does(ObjectOp::Delete, &[]);
    register.returns(ObjectOp::Exists, &[], Value::Bool(false));
    let mut counter = Kept::new(Object::Counter);
    counter.returns(ObjectOp::Value, &[], Value::Int(0));
    counter.does(ObjectOp::Increment, &[Value::Int(-3)]);
    counter.returns(ObjectOp::Value, &[], Value::Int(-3));
}

#[test]
fn sets_and_maps_are_stored_in_keys() {
    let mut set = Kept::new(Object::Set(Type::String));
    set.does(ObjectOp::Insert, &[Value::string("a")]);
    set.does(ObjectOp::Insert, &[Value::string("b")]);
    set.does(ObjectOp::Remove, &[Value::string("a")]);
    set.returns(ObjectOp::Contains, &[Value::string("a")], Value::Bool(false));
    set.returns(ObjectOp::Size, &[], Value::Int(1));
    let left = Value::Set(std::sync::Arc::new([Value::string("b")].into()));
    set.returns(ObjectOp::Elements, &[], left);
    let mut map = Kept::new(Object::Map(Type::Int, Type::Bool));
    map.does(ObjectOp::PutKey, &[Value::Int(1), Value::Bool(true)]);
    map.returns(ObjectOp::GetKey, &[Value::Int(1)], Value::some(Value::Bool(true)));
    map.returns(ObjectOp::ContainsKey, &[Value::Int(2)], Value::Bool(false));
    let all = Value::Map(std::sync::Arc::new([(Value::Int(1), Value::Bool(true))].into()));
    map.returns(ObjectOp::Entries, &[], all);
    map.does(ObjectOp::RemoveKey, &[Value::Int(1)]);
    map.returns(ObjectOp::Size, &[], Value::Int(0));
}

#[test]
fn lists_and_structs_are_stored_in_keys() {
    let mut list = Kept::new(Object::List(Type::String));
    list.does(ObjectOp::Append, &[Value::string("z")]);
    list.does(ObjectOp::Append, &[Value::string("a")]);
    list.returns(ObjectOp::Values, &[], Value::list(["z", "a"].map(Value::string)));
    list.returns(ObjectOp::At, &[Value::Int(1)], Value::some(Value::string("a")));
    list.returns(ObjectOp::At, &[Value::Int(-1)], Value::NONE);
    list.returns(ObjectOp::Size, &[], Value::Int(2));
    let mut user = Kept::new(Object::Struct(StructId(0)));
    user.does(ObjectOp::Create, &[Value::string("Ann"), Value::Int(30)]);
    user.does(ObjectOp::PutField(1), &[Value::Int(31)]);
    user.returns(ObjectOp::Field(0), &[], Value::string("Ann"));
    user.returns(ObjectOp::Field(1), &[], Value::Int(31));
    assert_eq!(user.perform(ObjectOp::Field(2), &[]), Err(CallError::Impossible));
    let mut nothing = Kept::new(Object::Struct(StructId(1)));
    nothing.does(ObjectOp::Create, &[]);
    nothing.returns(ObjectOp::Exists, &[], Value::Bool(true));
}

#[test]
fn values_of_another_type_are_rejected() {
    let mut register = Kept::new(Object::Register(Type::Int));
    let wrong = register.perform(ObjectOp::Put, &[Value::string("x")]);
    assert!(matches!(wrong, Err(CallError::Argument(_))), "{wrong:?}");
    assert_eq!(register.perform(ObjectOp::Append, &[]), Err(CallError::Impossible));
    let (program, object) = (program(), Object::Register(Type::Int));
    let (op, result) = (ObjectOp::Load, Type::Int);
    let call = Call { program: &program, object: &object, op, args: &[], result: &result };
    let read = call.answer(solera_data::Outcome::Bulk("x".into()));
    assert!(matches!(read, Err(CallError::Unreadable(_))), "{read:?}");
    let other = solera_data::Outcome::Int(1);
    assert_eq!(call.answer(other.clone()), Err(CallError::Unexpected(other)));
}

/// An operation updates its key exactly if it changes its object, and requires the type in which
/// the object is stored.
#[test]
fn operations_fit_the_types_of_keys() {
    let ops = [
        ObjectOp::Exists,
        ObjectOp::Delete,
        ObjectOp::Get,
        ObjectOp::Load,
        ObjectOp::Put,
        ObjectOp::Increment,
        ObjectOp::Value,
        ObjectOp::Insert,
        ObjectOp::Remove,
        ObjectOp::Contains,
        ObjectOp::Elements,
        ObjectOp::PutKey,
        ObjectOp::RemoveKey,
        ObjectOp::GetKey,
        ObjectOp::ContainsKey,
        ObjectOp::Entries,
        ObjectOp::Append,
        ObjectOp::At,
        ObjectOp::Values,
        ObjectOp::Size,
        ObjectOp::Field(0),
        ObjectOp::PutField(0),
        ObjectOp::Create,
    ];
    let objects = [
        Object::Register(Type::Int),
        Object::Counter,
        Object::Set(Type::Int),
        Object::Map(Type::Int, Type::Int),
        Object::List(Type::Int),
        Object::Log(Type::Int),
        Object::Struct(StructId(0)),
        Object::RemoteList(Type::Int),
    ];
    for object in &objects {
        for op in ops {
            if signature(&program(), object, StoreId(0), op).is_none() {
                continue;
            }
            let found = operation_of(object, op).unwrap_or_else(|| panic!("{object:?} {op:?}"));
            assert_eq!(found.is_update(), op.mutates(), "{object:?} {op:?}");
            assert!(found.needs().is_none_or(|ty| ty == type_of(object)), "{object:?} {op:?}");
        }
    }
    let parts = Op::HashGet("name".into());
    assert_eq!(parts.operation(), operation_of(&objects[6], ObjectOp::Field(0)).unwrap());
}
