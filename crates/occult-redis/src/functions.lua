-- Occult on a node of an unmodified Redis Cluster. `functions.rs` loads this text as a library of
-- Redis Functions, or as a script where functions are forbidden. docs/formats/occult-redis.md
-- describes the keys and records. docs/models/occult-commit specifies the protocol; this text
-- implements its variant with deadlines, and with a lock on the whole slot instead of locks on
-- objects.
--
-- KEYS[1] is the slot's record and KEYS[2] its home state. After them, each accessed key is
-- followed by the key of its timestamp.
local floor, byte, char, sub = math.floor, string.byte, string.char, string.sub
local STAMP_END = 9007199254740992
local MAX_GAPS, MAX_OUTCOMES, MAX_REPLY, MAX_WORDS = 8, 8, 256, 7000
-- For how far, in microseconds, a record lets the master's clock extend what its slot shows.
local LEASE = 40000000
-- The tag of the slot with this master's clock, as the calling gateway knows it; nil for none.
local clock_tag
-- How the calling gateway stores strings: 'S', plain, with the timestamp in a key of its own; or
-- 'E', in an envelope with the timestamp. Records begin with this letter.
local layout = 'S'

local function fail(text) error({ solera = text }) end

-- ---- Timestamps: temporal compression, as crates/occult/src/timestamp encodes it ----------------

-- Gets all bytes of a number with one call, because calls cause most of the cost of a timestamp.
local function get_number(text, at, what)
  local number, unit = 0, 1
  for i, digit in ipairs({ byte(text, at, at + 7) }) do
    number = number + (digit % 128) * unit
    if digit < 128 then
      if number >= STAMP_END then break end
      return number, at + i
    end
    unit = unit * 128
  end
  fail('DAMAGED ' .. what .. ' is cut off, or has a number out of range')
end

local function put_number(out, number)
  local digits, count = {}, 1
  while number >= 128 do
    digits[count], count = 128 + number % 128, count + 1
    number = floor(number / 128)
  end
  digits[count] = number
  out[#out + 1] = char(unpack(digits))
end

-- A timestamp: `entries` (their number), `all` (catch-all), `list` of { stamp, slot } in descending
-- order, `risk` (life to offset), `kind` of the value.
local function decode(text, what)
  if sub(text, 1, 1) ~= '\1' then fail('DAMAGED ' .. what .. ' is no timestamp of version 1') end
  local ts = { kind = sub(text, 2, 2), list = {}, risk = {} }
  local scheme = byte(text, 3)
  if scheme ~= 2 then
    fail('DAMAGED ' .. what .. ' has encoding ' .. tostring(scheme) .. ' instead of 2 (temporal)')
  end
  local at, count, difference, slot, life
  ts.entries, at = get_number(text, 4, what)
  ts.all, at = get_number(text, at, what)
  count, at = get_number(text, at, what)
  if count >= ts.entries then fail('DAMAGED ' .. what .. ' has too many entries') end
  local stamp = ts.all
  for i = count, 1, -1 do
    difference, at = get_number(text, at, what)
    slot, at = get_number(text, at, what)
    stamp = stamp + difference
    if stamp >= STAMP_END or slot > 16383 then fail('DAMAGED ' .. what .. ' is out of range') end
    ts.list[i] = { stamp, slot }
  end
  count, at = get_number(text, at, what)
  for _ = 1, count do
    life = sub(text, at, at + 7)
    if #life < 8 then fail('DAMAGED ' .. what .. ' is cut off') end
    ts.risk[life], at = get_number(text, at + 8, what)
  end
  if at ~= #text + 1 then fail('DAMAGED ' .. what .. ' has a foreign end') end
  return ts
end

local function encode(ts, kind)
  local out = { '\1', kind, '\2' }
  put_number(out, ts.entries)
  put_number(out, ts.all)
  put_number(out, #ts.list)
  local before = ts.all
  for i = #ts.list, 1, -1 do
    put_number(out, ts.list[i][1] - before)
    put_number(out, ts.list[i][2])
    before = ts.list[i][1]
  end
  local lives = {}
  for life in pairs(ts.risk) do lives[#lives + 1] = life end
  table.sort(lives)
  put_number(out, #lives)
  for _, life in ipairs(lives) do
    out[#out + 1] = life
    put_number(out, ts.risk[life])
  end
  return table.concat(out)
end

local function raise_all(ts, stamp)
  if stamp <= ts.all then return end
  ts.all = stamp
  while #ts.list > 0 and ts.list[#ts.list][1] <= stamp do table.remove(ts.list) end
end

local function raise(ts, slot, stamp)
  if stamp <= ts.all then return end
  for i, entry in ipairs(ts.list) do
    if entry[2] == slot then
      if entry[1] >= stamp then return end
      table.remove(ts.list, i)
      break
    end
  end
  local at = 1
  while ts.list[at] and ts.list[at][1] > stamp do at = at + 1 end
  table.insert(ts.list, at, { stamp, slot })
  while #ts.list >= ts.entries do raise_all(ts, table.remove(ts.list)[1]) end
end

local function merge(ts, other)
  raise_all(ts, other.all)
  for _, entry in ipairs(other.list) do raise(ts, entry[2], entry[1]) end
  for life, offset in pairs(other.risk) do
    if offset > (ts.risk[life] or 0) then ts.risk[life] = offset end
  end
end

local function explicit(ts, slot)
  for _, entry in ipairs(ts.list) do
    if entry[2] == slot then return entry[1] end
  end
end

local function stamp_of(ts, slot) return explicit(ts, slot) or ts.all end
local function greatest(ts) return ts.list[1] and ts.list[1][1] or ts.all end

-- ---- The slot's record and home state -----------------------------------------------------------

local function bytes_of(hex)
  return (hex:gsub('%x%x', function(digits) return char(tonumber(digits, 16)) end))
end
local function hex_of(life)
  return (life:gsub('.', function(each) return string.format('%02x', byte(each)) end))
end

-- Stamps are doubles: the default format would round them to 14 digits.
local function decimal(number) return string.format('%.0f', number) end

local function write_record(slot)
  local words = { layout .. '2', decimal(slot.shown), slot.life, decimal(slot.off) }
  if slot.tag then words[5] = '@' .. slot.tag .. ':' .. slot.birth .. ':' .. decimal(slot.lease) end
  for _, gap in ipairs(slot.gaps) do words[#words + 1] = gap end
  return table.concat(words, ' ')
end

local LAYOUTS = { S1 = 'plain', S2 = 'plain', E1 = 'envelope', E2 = 'envelope' }

local function read_record(text)
  local words = {}
  for word in text:gmatch('%S+') do words[#words + 1] = word end
  local slot = { shown = tonumber(words[2]), life = words[3], off = tonumber(words[4]), gaps = {} }
  local found, own = LAYOUTS[words[1]], LAYOUTS[layout .. '2']
  if found and found ~= own then
    fail('LAYOUT the strings of the slot have layout ' .. found .. ', and those of this gateway ' .. own)
  end
  if not found or not slot.shown or slot.shown >= STAMP_END or not slot.off
    or not slot.life:match('^' .. ('%x'):rep(16) .. '$') then
    fail('DAMAGED the record of the slot is not of version 1 or 2')
  end
  for i = 5, #words do
    local tag, birth, lease = words[i]:match('^@(%d+):(%d+):(%d+)$')
    if tag then
      slot.tag, slot.birth, slot.lease = tag, birth, tonumber(lease)
      if slot.lease >= STAMP_END then fail('DAMAGED the lease of the slot is out of range') end
    else
      slot.gaps[#slot.gaps + 1] = words[i]
    end
  end
  return slot
end

-- Returns the present and the previous replication id of this master's data, and the replication
-- offset before the changes of this call.
local function replication()
  local info = redis.call('INFO', 'replication')
  local function after(name)
    local _, last = info:find('\n' .. name .. ':', 1, true)
    return last + 1
  end
  local life, before = after('master_replid'), after('master_replid2')
  return {
    life = sub(info, life, life + 15), before = sub(info, before, before + 15),
    off = tonumber(info:match('%d+', after('master_repl_offset'))),
    began = tonumber(info:match('%-?%d+', after('second_repl_offset'))),
  }
end

local function time()
  local now = redis.call('TIME')
  return now[1] * 1000000 + now[2]
end

-- ---- The master's clock --------------------------------------------------------------------------

-- Reads the text of a clock: its stamp, the life of the master that advances it, and the
-- replication offset at which this master has begun it. A clock that was lost and begun again may
-- be behind; the offset then differs.
local function parse_clock(text)
  local stamp, life, birth = text:match('^C1 (%d+) (%x+) (%d+)$')
  return { stamp = tonumber(stamp), life = life, birth = birth }
end

-- Returns a clock of this node; an empty table if it does not have this clock. The clock lies in
-- another slot than the keys of the request.
local function clock_of(slot, tag)
  local known = slot.clocks[tag]
  if not known then
    local text = redis.pcall('GET', 'solera:{' .. tag .. '}:c')
    known = type(text) == 'string' and parse_clock(text) or {}
    slot.clocks[tag] = known
  end
  return known
end

-- Returns a stamp up to which readers may believe that the slot shows everything, because its
-- record names a clock. If the master has changed or does not have this clock any more, that is
-- the end of the lease.
local function believed(slot)
  if not slot.tag then return 0 end
  local clock = clock_of(slot, slot.tag)
  local goes_on = clock.life == slot.life and slot.life == slot.node.life and clock.birth == slot.birth
  return goes_on and math.min(clock.stamp, slot.lease) or slot.lease
end

-- Returns this master's clock if records may name it. A clock far ahead of the master's time is
-- damaged, or the time was set back.
local function own_clock(slot)
  if not clock_tag or slot.home.p then return end
  local clock = clock_of(slot, clock_tag)
  if clock.life == slot.node.life and clock.stamp < slot.time + LEASE then return clock end
end

-- Returns whether readers need a record that names this master's clock, or a longer lease.
local function wants_lease(slot)
  local clock = own_clock(slot)
  return clock and not (slot.tag == clock_tag and slot.birth == clock.birth
    and slot.lease - clock.stamp > LEASE * 3 / 4)
end

-- Lets the record name this master's clock, unless a transaction is undecided.
local function grant_lease(slot)
  local clock = own_clock(slot)
  slot.tag = clock and clock_tag
  if not clock then return end
  slot.clock = math.max(slot.clock, clock.stamp)
  slot.birth, slot.lease = clock.birth, clock.stamp + LEASE
end

-- Notes in the record that the slot's master has another life than at the slot's last change. After
-- a promotion, the old life ended at offset `began`; otherwise the offset is unknown.
local function begin_life(slot, node)
  if slot.life == node.life then return false end
  local known = node.before == slot.life and node.began > 0
  slot.own = math.max(slot.clock, slot.wall) + 1
  local stamp = math.max(slot.own, believed(slot) + 1)
  local gap = table.concat({ slot.life, known and decimal(node.began) or '?',
    decimal(slot.clock), decimal(stamp), decimal(slot.off) }, ':')
  table.insert(slot.gaps, gap)
  while #slot.gaps > MAX_GAPS do
    -- Older lives are not listed any more; one entry states that there were some.
    table.remove(slot.gaps, 1)
    slot.gaps[1] = '*:?:0:' .. (slot.gaps[1]:match('^[^:]*:[^:]*:[^:]*:(%d+)') or '0') .. ':0'
  end
  slot.life, slot.off, slot.tag = node.life, node.off + 1, nil
  if not slot.home.p then slot.clock = stamp end
  return true
end

-- Reads the slot's state. `now` is the time of the gateway. Stamps follow the gateway's clock or
-- this node's clock, whichever is slower, so that one wrong clock alone does not drag them ahead.
local function open(keys, now)
  local found = redis.call('MGET', keys[1], keys[2])
  local slot
  if found[1] and found[2] then
    slot = read_record(found[1])
    local readable, home = pcall(cmsgpack.unpack, found[2])
    if not readable or type(home) ~= 'table' or type(home.c) ~= 'number'
      or type(home.o) ~= 'table' or type(home.x) ~= 'table' or type(home.f) ~= 'number' then
      fail('DAMAGED the home state of the slot is unreadable')
    end
    slot.home, slot.clock = home, math.max(home.c, slot.shown)
  elseif found[1] or found[2] then
    fail('EVICTED the slot has lost its ' .. (found[1] and 'home state' or 'record'))
  else
    slot = { shown = 0, clock = 0, gaps = {}, home = { c = 0, o = {}, x = {}, f = 0 }, new = true }
  end
  slot.time = time()
  slot.wall = math.min(slot.time, now)
  slot.node = replication()
  slot.clocks = {}
  -- The clock that the slot's own writes and reads have set.
  slot.own = slot.clock
  if slot.new then
    slot.life, slot.off = slot.node.life, slot.node.off + 1
    if slot.node.began > 0 then
      -- The writes that were lost at the promotion may have been the slot's first ones.
      slot.gaps[1] = slot.node.before .. ':' .. decimal(slot.node.began) .. ':0:0:0'
    end
  else
    slot.changed = begin_life(slot, slot.node)
    slot.clock = math.max(slot.clock, believed(slot))
  end
  return slot
end

-- Writes the state. The slot shows everything up to its clock, unless a transaction is undecided.
local function save(keys, slot)
  grant_lease(slot)
  slot.home.c = slot.clock
  slot.shown = slot.home.p and slot.home.p.stamp - 1 or slot.clock
  redis.call('SET', keys[1], write_record(slot))
  redis.call('SET', keys[2], cmsgpack.pack(slot.home))
  slot.changed = false
end

-- Returns the reason why a session with this timestamp cannot go on in this slot; nothing if it
-- can.
local function lost(slot, ts, number, cleared)
  for _, gap in ipairs(slot.gaps) do
    local life, ended, _, _, last = gap:match('^(%S-):(%S-):(%d+):(%d+):(%d+)$')
    if not life then fail('DAMAGED the record of the slot has an unreadable gap') end
    local offset = life ~= '*' and ts.risk[bytes_of(life)]
    if offset and tonumber(ended) and tonumber(ended) <= offset then return 'LOST', life end
    if offset and ended == '?' and tonumber(last) < offset and not cleared[life] then
      return 'UNSURE', life
    end
  end
  local stamp = explicit(ts, number)
  -- An explicit entry is the stamp of a write of this slot. If it is above the slot's own clock,
  -- this master does not have the write, unless the held transaction made it.
  if stamp and stamp > slot.own and not slot.home.p then return 'LOST', slot.life end
end

-- Returns the slot from which a timestamp has a stamp. The catch-all does not name it.
local function origin(ts, stamp)
  for _, entry in ipairs(ts.list) do
    if entry[1] == stamp then return 'slot ' .. entry[2] end
  end
  return 'some slot'
end

-- Fails if a stamp of a timestamp is too far ahead. `ts` is the session's timestamp if `is_session`,
-- or else the timestamp of stored values.
local function check_ahead(slot, ts, stamp, ahead, is_session)
  local clock = math.max(slot.time, slot.now)
  if stamp <= clock + ahead or stamp <= slot.clock then return end
  fail('AHEAD ' .. (is_session and 'the session' or 'the value of a key') .. ' depends on a write of '
    .. origin(ts, stamp) .. ' that is ' .. decimal((stamp - clock) / 1000000)
    .. ' s ahead of the clocks: correct them, or wait' .. (is_session
      and ', or drop the dependency by SOLERA.ATTACH with an older token or without one' or ''))
end

-- ---- Envelopes of strings ------------------------------------------------------------------------

-- Begin of an envelope. After it: the length of the timestamp, the timestamp, the value.
local ENVELOPE = '\0OCCULT\1'

local function wrap(stamp, value)
  local out = { ENVELOPE }
  put_number(out, #stamp)
  return table.concat(out) .. stamp .. value
end

-- Returns the timestamp and the value of an envelope; nothing for a string without one.
local function peel(text, key)
  if sub(text, 1, #ENVELOPE) ~= ENVELOPE then return end
  local length, at = get_number(text, #ENVELOPE + 1, 'the envelope of ' .. key)
  return sub(text, at, at + length - 1), sub(text, at + length)
end

-- Returns the timestamp of a key (false if it has none), and the value if it is in an envelope.
local function stamped(key, beside)
  if layout == 'E' then
    local text = redis.pcall('GET', key)
    if type(text) == 'string' then
      local stamp, value = peel(text, key)
      if not stamp then
        fail('FOREIGN key ' .. key .. ' holds a string without an envelope: another program has '
          .. 'written it. Remove it there first')
      end
      return stamp, value
    end
  end
  return redis.call('GET', beside)
end

-- Commands that access a string or a part of it.
local OF_STRINGS = {}
for name in ('GET STRLEN GETRANGE SUBSTR GETBIT BITCOUNT BITPOS SET SETNX SETEX PSETEX GETSET GETDEL '
  .. 'GETEX APPEND INCR DECR INCRBY DECRBY INCRBYFLOAT SETRANGE SETBIT'):gmatch('%u+') do
  OF_STRINGS[name] = true
end

-- Returns a command's reply for a value; nil if Redis must execute the command.
local function peek(words, value)
  local name = words[1]
  if name == 'GET' and #words == 2 then return value end
  if name == 'STRLEN' and #words == 2 then return #value end
  if (name ~= 'GETRANGE' and name ~= 'SUBSTR') or #words ~= 4 then return end
  if not (words[3]:match('^-?%d+$') and words[4]:match('^-?%d+$')) then
    return { err = 'ERR value is not an integer or out of range' }
  end
  local first, last = tonumber(words[3]), tonumber(words[4])
  if first < 0 and last < 0 and first > last then return '' end
  if first < 0 then first = math.max(#value + first, 0) end
  if last < 0 then last = math.max(#value + last, 0) end
  return sub(value, first + 1, last + 1)
end

-- Prepares a string in an envelope for a command, or returns the reply if Redis need not execute
-- it. `strings` has an entry for each key that now lies in Redis without an envelope (`text` is its
-- former content), or that is to be set to `value`.
local function prepare_string(key, at, words, strings)
  local held = strings[at]
  if words[1] == 'SET' and #words == 3 then
    strings[at] = { value = words[3] }
    return { ok = 'OK' }
  end
  if held and held.value then
    redis.call('SET', key, held.value)
    strings[at] = {}
  elseif not held and OF_STRINGS[words[1]] then
    local text = redis.pcall('GET', key)
    if type(text) ~= 'string' then
      strings[at] = {}
      return
    end
    -- A value that another program has written since the check has no envelope.
    local _, value = peel(text, key)
    local reply = value and peek(words, value)
    if reply ~= nil then return reply end
    redis.call('SET', key, value or text, 'KEEPTTL')
    strings[at] = { text = text }
  end
end

-- Merges the timestamps of the accessed keys.
local function overwritten(keys, slot, number, entries, ended)
  local merged
  for i = 4, #keys, 2 do
    local text = stamped(keys[i - 1], keys[i])
    if text then
      if slot.new then fail('EVICTED the slot has lost its record, and a key has a timestamp') end
      local ts = decode(text, 'the timestamp of ' .. keys[i - 1])
      local own = explicit(ts, number)
      if own and own > slot.clock then
        fail('DAMAGED ' .. keys[i - 1] .. ' has a later stamp than its slot')
      end
      if not merged and ts.entries == entries then
        merged = ts
      else
        merged = merged or { entries = entries, all = 0, list = {}, risk = {} }
        merge(merged, ts)
      end
    end
  end
  merged = merged or { entries = entries, all = 0, list = {}, risk = {} }
  for life, offset in pairs(ended) do
    -- Writes that survived the end of their life are no risk any more. A blind write does not
    -- depend on lost writes.
    if (merged.risk[life] or 0) > 0 and (offset < 0 or merged.risk[life] < offset) then
      merged.risk[life] = nil
    end
  end
  return merged
end

local function locked(slot)
  local held = slot.home.p
  return { 'LOCKED', write_record(slot), held.tid, held.decision, held.participants,
    slot.time > held.expires and 1 or 0 }
end

-- Writes the timestamps of keys that commands have changed. The timestamp of an absent key expires
-- some time after its value was removed.
local function stamp_key(key, beside, encoded, grace, held)
  local kind, left = 'string', -1
  if not (held and held.value) then
    kind = redis.call('TYPE', key).ok
    if kind ~= 'none' then left = redis.call('PTTL', key) end
  end
  local text = '\1' .. (kind == 'none' and 'r' or kind == 'string' and 'v' or 'o') .. sub(encoded, 3)
  local wrapped = layout == 'E' and kind == 'string'
  if wrapped and held and held.value then
    redis.call('SET', key, wrap(text, held.value))
  elseif wrapped then
    local value = redis.call('GET', key)
    if not held then
      local _, inner = peel(value, key)
      value = inner or value
    end
    redis.call('SET', key, wrap(text, value), 'KEEPTTL')
  end
  if kind == 'none' then
    redis.call('SET', beside, text, 'PX', grace)
  elseif left >= 0 then
    redis.call('SET', beside, text, 'PX', left + grace)
  elseif wrapped then
    redis.call('DEL', beside)
  else
    redis.call('SET', beside, text)
  end
end

local function stamp_keys(keys, encoded, changed, grace, strings)
  for i in pairs(changed) do stamp_key(keys[i], keys[i + 1], encoded, grace, strings[i]) end
end

-- Executes commands: each with its key, its kind (r: reads; w: writes; c: has written unless the
-- reply is 0 or nil) and its words. Returns the replies, the indexes of changed keys, and which
-- strings `stamp_keys` must put into envelopes.
local function execute(keys, commands)
  local replies, changed, strings = {}, {}, {}
  for i, command in ipairs(commands) do
    local words = { command.words[1], keys[command.key] }
    for j = 2, #command.words do words[j + 1] = command.words[j] end
    local reply
    if layout == 'E' then reply = prepare_string(keys[command.key], command.key, words, strings) end
    if reply == nil then reply = redis.pcall(unpack(words)) end
    if type(reply) == 'table' and reply.err then
      reply = { 'E', reply.err }
    else
      local nothing = command.kind == 'c' and (reply == 0 or not reply)
      if command.kind ~= 'r' and not nothing then changed[command.key] = true end
      reply = { 'R', reply }
    end
    replies[i] = reply
  end
  for at, held in pairs(strings) do
    if held.text and not changed[at] then redis.call('SET', keys[at], held.text, 'KEEPTTL') end
  end
  return replies, changed, strings
end

-- Keeps an outcome until its deadline, and until all participants have applied the commit.
local function remember(slot, outcome)
  local kept = {}
  for _, each in ipairs(slot.home.o) do
    if each.deadline > slot.time or #(each.pending or {}) > 0 then kept[#kept + 1] = each end
  end
  kept[#kept + 1] = outcome
  slot.home.o = kept
end

-- Keeps the outcome of a transaction of one slot, and forgets the oldest outcome. Outcomes are
-- pairs of an id and the rest, which is packed because few outcomes are ever read.
local function remember_executed(slot, request, ts, replies)
  local kept, packed = slot.home.x, cmsgpack.pack(replies)
  local rest = { request.deadline, ts, #packed <= MAX_REPLY and packed or false }
  kept[#kept + 1] = request.tid
  kept[#kept + 1] = cmsgpack.pack(rest)
  if #kept > 2 * MAX_OUTCOMES then
    table.remove(kept, 1)
    local oldest = cmsgpack.unpack(table.remove(kept, 1))
    slot.home.f = math.max(slot.home.f, oldest[1])
  end
end

local function outcome_of(slot, tid)
  for _, each in ipairs(slot.home.o) do
    if each.tid == tid then return each end
  end
  for i = 1, #slot.home.x, 2 do
    if slot.home.x[i] == tid then
      local rest = cmsgpack.unpack(slot.home.x[i + 1])
      return { tid = tid, state = 'x', deadline = rest[1], ts = rest[2], replies = rest[3] }
    end
  end
end

-- ---- Requests -----------------------------------------------------------------------------------

local function take_commands(args, at)
  local count = tonumber(args[at])
  at = at + 1
  local commands = {}
  for i = 1, count do
    local words, length = {}, tonumber(args[at + 2])
    -- Lua cannot pass more arguments on, and a later failure would leave a part of the transaction
    -- behind.
    if length > MAX_WORDS then fail('ERR a command has more than ' .. MAX_WORDS .. ' words') end
    for j = 1, length do words[j] = args[at + 2 + j] end
    commands[i] = { key = tonumber(args[at]), kind = args[at + 1], words = words }
    at = at + 3 + length
  end
  return commands, at
end

local function take_list(args, at, width)
  local count, list = tonumber(args[at]), {}
  for i = 1, count do
    local item = {}
    for j = 1, width do item[j] = args[at + (i - 1) * width + j] end
    list[i] = item
  end
  return list, at + 1 + count * width
end

-- The arguments that EXECUTE and PREPARE share.
local function take_request(args)
  local request, at = {
    tid = args[1], now = tonumber(args[2]), number = tonumber(args[3]),
    deadline = tonumber(args[4]), again = args[5] == '1', ahead = tonumber(args[6]),
    grace = tonumber(args[7]), ts = decode(args[8], "the session's timestamp"),
    cleared = {}, ended = {},
  }, nil
  local list
  list, at = take_list(args, 9, 1)
  for _, item in ipairs(list) do request.cleared[item[1]] = true end
  list, at = take_list(args, at, 2)
  for _, item in ipairs(list) do request.ended[bytes_of(item[1])] = tonumber(item[2]) end
  request.reads, at = take_list(args, at, 2)
  request.watches, at = take_list(args, at, 2)
  request.commands, at = take_commands(args, at)
  return request, at
end

-- Makes the checks that EXECUTE and PREPARE share. Returns an answer, or the overwritten timestamp.
local function admit(keys, slot, request)
  slot.now = request.now
  if slot.time > request.deadline then return { 'LATE', decimal(slot.time) } end
  if slot.home.p then return locked(slot) end
  local why, life = lost(slot, request.ts, request.number, request.cleared)
  if why then return { why, write_record(slot), life } end
  for _, watch in ipairs(request.watches) do
    local text = stamped(keys[tonumber(watch[1])], keys[tonumber(watch[1]) + 1]) or ''
    if text ~= watch[2] then return { 'CHANGED', write_record(slot), keys[tonumber(watch[1])] } end
  end
  local before = overwritten(keys, slot, request.number, request.ts.entries, request.ended)
  check_ahead(slot, request.ts, greatest(request.ts), request.ahead, true)
  check_ahead(slot, before, greatest(before), request.ahead)
  return nil, before
end

local function validate(request, before)
  for _, read in ipairs(request.reads) do
    if tonumber(read[2]) < stamp_of(before, tonumber(read[1])) then return read[1] end
  end
end

-- Returns remembered replies, or false if they were too long.
local function unpacked(replies) return replies and cmsgpack.unpack(replies) or false end

local requests = {}

-- Executes a transaction of one slot. A repeated request is answered from the outcome.
function requests.execute(keys, args)
  local request = take_request(args)
  local slot = open(keys, request.now)
  local known = outcome_of(slot, request.tid)
  if known and known.state == 'x' then
    return { 'OK', write_record(slot), known.ts, unpacked(known.replies) }
  elseif known then
    return { 'REFUSED', write_record(slot) }
  elseif request.again and request.deadline <= slot.home.f then
    return { 'FORGOTTEN', write_record(slot) }
  end
  local answer, before = admit(keys, slot, request)
  if answer then return answer end
  local missed = validate(request, before)
  if missed then return { 'CONFLICT', write_record(slot), missed } end
  local ts = request.ts
  merge(ts, before)
  local replies, changed, strings = execute(keys, request.commands)
  local encoded
  if next(changed) then
    slot.clock = math.max(slot.clock + 1, slot.wall, greatest(ts) + 1)
    raise(ts, request.number, slot.clock)
    slot.off = slot.node.off + 1
    encoded = encode(ts, 'v')
    stamp_keys(keys, encoded, changed, request.grace, strings)
    remember_executed(slot, request, encoded, replies)
    save(keys, slot)
  else
    encoded = encode(ts, 'v')
    if stamp_of(ts, request.number) > slot.clock then
      slot.clock = math.max(stamp_of(ts, request.number), slot.wall)
      save(keys, slot)
    elseif slot.changed or slot.new then
      save(keys, slot)
    end
  end
  return { 'OK', write_record(slot), encoded, replies }
end

-- Locks the slot and keeps the commands of a transaction of several slots.
function requests.prepare(keys, args)
  local request, at = take_request(args)
  local slot = open(keys, request.now)
  local held, known = slot.home.p, outcome_of(slot, request.tid)
  if known then return { 'REFUSED', write_record(slot) } end
  if not (held and held.tid == request.tid) then
    local answer, before = admit(keys, slot, request)
    if answer then return answer end
    held = {
      tid = request.tid, stamp = math.max(slot.clock + 1, slot.wall, greatest(request.ts) + 1),
      decision = args[at], participants = args[at + 1], expires = slot.time + tonumber(args[at + 2]),
      deadline = request.deadline, before = encode(before, 'v'), commands = request.commands,
      keys = {}, grace = request.grace,
    }
    for i = 3, #keys do held.keys[i - 2] = keys[i] end
    slot.home.p, slot.off = held, slot.node.off + 1
    save(keys, slot)
  end
  return { 'PREPARED', write_record(slot), decimal(held.stamp), held.before }
end

-- Applies or drops the held transaction.
local function finish(keys, slot, commit)
  local held, replies, changed, strings = slot.home.p, {}, nil, nil
  slot.clock = math.max(slot.clock, held.stamp)
  if commit then
    for i, key in ipairs(held.keys) do
      if keys[i + 2] ~= key then fail('ERR the keys are not those of the prepare') end
    end
    slot.clock = math.max(slot.clock, stamp_of(commit, slot.number))
    replies, changed, strings = execute(keys, held.commands)
    stamp_keys(keys, encode(commit, 'v'), changed, held.grace, strings)
  end
  slot.home.p, slot.off = nil, slot.node.off + 1
  return replies
end

-- Returns the keys of the held transaction, so that a gateway that has not prepared it can send
-- the decision.
function requests.held(keys, args)
  local slot = open(keys, tonumber(args[2]))
  local held = slot.home.p
  if not held or held.tid ~= args[1] then return { 'NONE', write_record(slot) } end
  return { 'HELD', write_record(slot), held.keys }
end

-- Decides to commit, at the decision slot. This is the commit point.
function requests.commit(keys, args)
  local tid, number, deadline = args[1], tonumber(args[3]), tonumber(args[4])
  local slot = open(keys, tonumber(args[2]))
  slot.number = number
  local held, known = slot.home.p, outcome_of(slot, tid)
  if held and held.tid == tid then
    local replies = finish(keys, slot, decode(args[5], 'the commit timestamp'))
    local pending = {}
    for i = 6, #args do pending[#pending + 1] = args[i] end
    remember(slot, { tid = tid, deadline = deadline, state = 'c', ts = args[5], pending = pending })
    save(keys, slot)
    return { 'COMMITTED', write_record(slot), replies }
  elseif known then
    return { known.state == 'c' and 'COMMITTED' or 'REFUSED', write_record(slot), false }
  elseif slot.time > deadline then
    return { 'FORGOTTEN', write_record(slot) }
  end
  remember(slot, { tid = tid, deadline = deadline, state = 'a' })
  save(keys, slot)
  return { 'REFUSED', write_record(slot) }
end

-- Receives the decision, at any other participant; an empty timestamp is an abort.
function requests.decide(keys, args)
  local tid, number, deadline = args[1], tonumber(args[3]), tonumber(args[4])
  local slot = open(keys, tonumber(args[2]))
  slot.number = number
  local held, replies = slot.home.p, false
  if held and held.tid == tid then
    replies = finish(keys, slot, args[5] ~= '' and decode(args[5], 'the commit timestamp') or nil)
    remember(slot, { tid = tid, deadline = held.deadline, state = args[5] ~= '' and 'd' or 'a' })
    save(keys, slot)
  elseif args[5] == '' and not outcome_of(slot, tid) and slot.time <= deadline then
    remember(slot, { tid = tid, deadline = deadline, state = 'a' })
    save(keys, slot)
  end
  return { 'APPLIED', write_record(slot), replies }
end

-- Returns the outcome from the decision slot, and aborts an undecided transaction. The outcome of a
-- transaction of one slot is forgotten only if its deadline is at most home.f. With a later
-- deadline and without a record, the transaction has not been executed; after its deadline it never
-- is.
function requests.resolve(keys, args)
  local tid, deadline = args[1], tonumber(args[4])
  local slot = open(keys, tonumber(args[2]))
  local held, known = slot.home.p, outcome_of(slot, tid)
  if held and held.tid == tid then
    deadline = held.deadline
    finish(keys, slot, nil)
  elseif known and known.state == 'a' then
    return { 'ABORTED', write_record(slot) }
  elseif known then
    return { 'COMMITTED', write_record(slot), known.ts, unpacked(known.replies) }
  elseif deadline <= slot.home.f or args[5] ~= '1' and slot.time > deadline then
    return { 'NONE', write_record(slot) }
  end
  remember(slot, { tid = tid, deadline = deadline, state = 'a' })
  save(keys, slot)
  return { 'ABORTED', write_record(slot) }
end

-- Notes that participants have applied the commit.
function requests.applied(keys, args)
  local slot = open(keys, tonumber(args[2]))
  local known = outcome_of(slot, args[1])
  if known and known.pending then
    local applied, left = {}, {}
    for i = 3, #args do applied[args[i]] = true end
    for _, each in ipairs(known.pending) do
      if not applied[each] then left[#left + 1] = each end
    end
    known.pending = left
    save(keys, slot)
  end
  return { 'OK', write_record(slot) }
end

-- Reads at the master. The slot's clock advances to the session's entry.
function requests.read(keys, args)
  local number, ahead = tonumber(args[2]), tonumber(args[3])
  local slot = open(keys, tonumber(args[1]))
  slot.now = tonumber(args[1])
  local ts = decode(args[4], "the session's timestamp")
  local cleared, at = {}, nil
  local list
  list, at = take_list(args, 5, 1)
  for _, item in ipairs(list) do cleared[item[1]] = true end
  local why, life = lost(slot, ts, number, cleared)
  if why then return { why, write_record(slot), life } end
  local text = stamped(keys[3], keys[4])
  if text and slot.new then
    fail('EVICTED the slot has lost its record, and a key has a timestamp')
  end
  local needed, own = stamp_of(ts, number), nil
  if text then
    own = decode(text, 'the timestamp of ' .. keys[3])
    needed = math.max(needed, stamp_of(own, number))
  end
  if slot.home.p then
    if needed >= slot.home.p.stamp then return locked(slot) end
    if slot.changed then save(keys, slot) end
  elseif needed > slot.clock or slot.changed or slot.new or wants_lease(slot) then
    check_ahead(slot, ts, stamp_of(ts, number), ahead, true)
    if own then check_ahead(slot, own, stamp_of(own, number), ahead) end
    slot.clock = math.max(slot.clock, needed, slot.wall)
    save(keys, slot)
  end
  slot.shown = slot.home.p and slot.home.p.stamp - 1 or slot.clock
  local command = take_commands(args, at)
  local replies = execute(keys, command)
  return { 'OK', write_record(slot), text or false, replies[1] }
end

-- Advances this master's clock, which is KEYS[1], to the master's or the gateway's time, whichever
-- is earlier, if the clock is at least this much behind.
function requests.clock(keys, args)
  local node, text = replication(), redis.call('GET', keys[1])
  local clock = text and parse_clock(text) or {}
  local now = math.min(time(), tonumber(args[1]))
  if clock.life ~= node.life then
    clock = { stamp = math.max(clock.stamp or 0, now), birth = decimal(node.off) }
  elseif now - clock.stamp < tonumber(args[2]) then
    return { 'OK' }
  end
  local stamp = decimal(math.max(clock.stamp, now))
  redis.call('SET', keys[1], table.concat({ 'C1', stamp, node.life, clock.birth }, ' '))
  return { 'OK' }
end

-- Lets the slot's record name the clock, or extends the lease. A slot without a record gets none:
-- it may have lost its record.
function requests.renew(keys, args)
  local slot = open(keys, tonumber(args[1]))
  if not slot.new and (slot.changed or wants_lease(slot)) then save(keys, slot) end
  return { 'OK' }
end

-- Reads at a replica: the record, the timestamp, the reply, whether the key has a value, and the
-- clock of the replica's master.
function requests.look(keys, args)
  local record = redis.call('GET', keys[1])
  -- Otherwise the error for a string of the other layout would be FOREIGN.
  if record and layout == 'E' then read_record(record) end
  local stamp, value = stamped(keys[2], keys[3])
  local words = { args[1], keys[2] }
  for i = 2, #args do words[i + 1] = args[i] end
  local reply = value and peek(words, value)
  if reply == nil then reply = redis.pcall(unpack(words)) end
  if type(reply) == 'table' and reply.err then
    reply = { 'E', reply.err }
  else
    reply = { 'R', reply }
  end
  local clock = clock_tag and redis.pcall('GET', 'solera:{' .. clock_tag .. '}:c')
  if type(clock) ~= 'string' then clock = false end
  return { 'OK', record, stamp, reply, redis.call('EXISTS', keys[2]), clock }
end

local function run(name, keys, args)
  layout, clock_tag, name = name:match('^([SE])(%d*):(%l+)$')
  if clock_tag == '' then clock_tag = nil end
  local done, answer = pcall(requests[name], keys, args)
  if done then return answer end
  if type(answer) == 'table' and answer.solera then return { 'FAILED', answer.solera } end
  -- `error` would put another code before the code of an error of Redis, such as OOM.
  local text = type(answer) == 'table' and answer.err or answer
  if type(text) == 'string' and text:find('^%u+ ') then return { err = text } end
  error(answer)
end
