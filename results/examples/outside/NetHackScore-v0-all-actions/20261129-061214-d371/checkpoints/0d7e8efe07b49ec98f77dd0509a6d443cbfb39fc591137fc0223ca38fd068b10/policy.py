import json, os, re, random, sys, traceback
from collections import deque
import numpy as np

P = json.load(open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "parameters.json")))
W = 81
N = 23 * W
DIRS = [(0, -1), (1, 0), (0, 1), (-1, 0), (1, -1), (1, 1), (-1, 1), (-1, -1)]  # N E S W NE SE SW NW
OFF = [dy * W + dx for dx, dy in DIRS]
KEY = {'k': 0, 'l': 1, 'j': 2, 'h': 3, 'u': 4, 'n': 5, 'b': 6, 'y': 7, 'K': 8, 'L': 9, 'J': 10, 'H': 11,
       'U': 12, 'N': 13, 'B': 14, 'Y': 15, '<': 16, '>': 17, '.': 18, '\r': 19, '#': 20, 'a': 24, '@': 26, 'C': 27,
       'Z': 28, 'c': 30, 'd': 33, 'D': 34, 'e': 35, 'E': 36, '\x1b': 38, 'F': 39, 'f': 40, ';': 42, 'V': 43, 'i': 44,
       'I': 45, 'm': 54, 'M': 55, 'o': 57, 'O': 58, 'p': 60, ',': 61, 'P': 63, 'q': 64, 'Q': 66, 'r': 67, 'R': 69,
       'g': 72, 'G': 73, 'S': 74, 's': 75, 't': 91, '_': 93, 'x': 87, 'X': 95, 'T': 88, 'A': 89, 'v': 98, 'W': 99,
       'w': 102, 'z': 104, '+': 105, '-': 106, ' ': 107}
for _i in range(10):
    KEY[str(_i)] = 110 + _i
ESC, MORE, KICK, PRAY, ENH = 38, 19, 48, 62, 37
MONS = 381
CM = 2359
SWL, SWH = 2541, 5589
PASS = {12, 13, 14, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 33, 35, 36}
DOORS = {13, 14, 15, 16}
AVOID = ("floating eye", "jelly", "brown mold", "yellow mold", "green mold", "red mold", "gas spore", "acid blob",
         "flaming sphere", "freezing sphere", "shocking sphere", "gelatinous cube")
SESSILE = ("floating eye", "jelly", "mold", "gas spore", "fungus", "lichen", "shrieker")
BADCORPSE = ("cockatrice", "chickatrice", "green slime", "medusa", "were", "kitten", "housecat", "large cat", "dog",
             "human", "elf", "bat", "green mold", "red mold", "yellow mold", "brown mold", "violet", "stalker",
             "leprechaun", "nymph", "chameleon", "doppelganger", "zombie", "mummy", "vampire", "lich ", "ghoul",
             "mimic", "jelly", "shopkeeper", "guard", "watch", "priest", "nurse", "lizard", "scorpion", "pudding",
             "player", "archeologist", "monk", "disenchanter", "tengu", "quantum", "Abbot", "abbot", "acolyte")
POIS = ("kobold", "ant", "bee", "centipede", "spider", "snake", "homunculus", "quasit", "soldier", "cobra", "viper",
        "rattlesnake", "rabid", "naga", "worm")


def cid(x, y):
    return (y + 1) * W + x + 1


def xy(c):
    return c % W - 1, c // W - 1


class Lvl:
    def __init__(self):
        self.base = np.zeros((21, 79), np.int16)
        self.visited = set()
        self.blocked = {}
        self.nodiag = set()
        self.search = {}
        self.nsearch = 0
        self.steps0 = None
        self.badgold = set()
        self.mines_stairs = set()
        self.kills = {}
        self.edge = {}
        self.shop = False
        self.steps = 0
        self.kicks = {}
        self.giveup = False


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.maxsteps = env_meta.get("max_episode_steps", 5000) or 5000

    def reset(self, episode_index):
        self.gen = None
        self.n = 0
        self.errs = 0
        self.levels = {}
        self.lastpray = None
        self.prayers = 0
        self.msg = ""
        self.nutr_t = 0
        self.log = []
        self.enh_at = 0
        self.lastxl = 1
        self.travel_bad = 0
        self.nospell = 0
        self.elb = None
        self.arrived = None
        self.invis = {}
        self.eatfail = 0
        self.rng = random.Random(1)
        self.prevlev = None

    # ------------------------------------------------------------ plumbing
    def act(self, obs):
        self.n += 1
        self.obs = obs
        try:
            self.update()
            if self.gen is None:
                self.gen = self.main()
                a = next(self.gen)
            else:
                a = self.gen.send(None)
            return int(a)
        except Exception:
            self.errs += 1
            if self.errs < 4:
                print(self.n, traceback.format_exc(), flush=True)
            self.gen = self.main()
            try:
                return int(next(self.gen)) if self.errs < 400 and self.errs % 3 else (ESC if self.errs % 2 else KEY['s'])
            except Exception:
                self.gen = None
                return KEY['s']

    def say(self, *a):
        if len(self.log) < 700:
            self.log.append(1)
            print(self.n, "T%d" % self.T, "D%d" % self.depth, "XL%d" % self.xl, "HP%d/%d" % (self.hp, self.mhp), *a, flush=True)

    def update(self):
        o = self.obs
        b = o["blstats"]
        self.x, self.y = int(b[0]), int(b[1])
        self.score, self.hp, self.mhp, self.depth = int(b[9]), int(b[10]), int(b[11]), int(b[12])
        self.pw, self.ac, self.xl, self.T = int(b[14]), int(b[16]), int(b[18]), int(b[20])
        self.hunger, self.dnum, self.dlev, self.cond = int(b[21]), int(b[23]), int(b[24]), int(b[25])
        self.tty = o["tty_chars"]
        self.cur = (int(o["tty_cursor"][0]), int(o["tty_cursor"][1]))
        m = bytes(o["message"]).split(b"\0")[0].decode("latin1")
        self.curmsg = m
        self.top = bytes(self.tty[0]).decode("latin1").rstrip()
        k = (self.dnum, self.dlev)
        self.lk = k
        if k not in self.levels:
            self.levels[k] = Lvl()
            self.levels[k].steps0 = self.n
        self.L = self.levels[k]
        self.L.steps += 1
        g = o["glyphs"]
        self.g = g
        L = self.L
        cm = (g >= CM + 1) & (g < CM + 87)
        L.base[cm] = g[cm] - CM
        # objects & corpses etc on unknown base: treat as floor
        self.pos = cid(self.x, self.y)
        L.visited.add(self.pos)

    def desc(self, x, y):
        return bytes(self.obs["screen_descriptions"][y, x]).split(b"\0")[0].decode("latin1")

    def screen(self):
        return "\n".join(bytes(r).decode("latin1").rstrip() for r in self.tty)

    def step(self, a):
        """one key, then dismiss --More--; collects messages in self.msg"""
        yield a
        self.msg += " | " + self.curmsg
        k = 0
        while k < 30:
            t = bytes(self.tty.reshape(-1))
            if b"--More--" in t:
                self.msg += " | " + self.top
                if "Count" in self.top:
                    break
                yield MORE
                self.msg += " | " + self.curmsg
                k += 1
            else:
                break

    def keys(self, s):
        for ch in s:
            yield from self.step(KEY[ch])

    def normal(self):
        return self.cur == (self.y + 1, self.x)

    # ------------------------------------------------------------ monsters
    def scan(self):
        g = self.g
        self.swallowed = False
        mons = []
        ys, xs = np.nonzero((g < 763) | ((g >= 5589) & (g < 5595)))
        for y, x in zip(ys.tolist(), xs.tolist()):
            if x == self.x and y == self.y:
                continue
            gl = int(g[y, x])
            d = self.desc(x, y)
            dist = max(abs(x - self.x), abs(y - self.y))
            if gl == 762 or gl >= 5589:
                mons.append((dist, x, y, "invisible", "I"))
                continue
            if gl >= MONS:
                mons.append((dist, x, y, d, "T"))
                continue
            if d.startswith("peaceful"):
                mons.append((dist, x, y, d, "P"))
            elif d.startswith("tame"):
                mons.append((dist, x, y, d, "T"))
            elif any(a in d for a in AVOID):
                mons.append((dist, x, y, d, "A"))
            else:
                mons.append((dist, x, y, d, "H"))
        mons.sort()
        self.mons = mons
        if np.any((g >= SWL) & (g < SWH)):
            self.swallowed = True
        self.hostile = [m for m in mons if m[4] == "H"]
        self.adj = [m for m in self.hostile if m[0] == 1]

    # ------------------------------------------------------------ map
    def build(self):
        """passability: 0 no, 1 yes, 2 closed door, 3 risky(trap)"""
        L = self.L
        g = self.g
        p = np.zeros((23, W), np.int8)
        base = L.base
        pv = np.zeros(96, np.int8)
        for c in PASS:
            pv[c] = 1
        pv[15] = pv[16] = 2
        for c in range(42, 65):
            pv[c] = 3
        q = pv[base]
        obj = ((g >= 1144) & (g < CM)) | (g >= 5595)
        q[obj & ((base == 0) | (q == 0))] = 1
        mon = (g < 1144)
        q[mon & (base == 0)] = 1
        ch = self.obs["chars"]
        # boulders
        by, bx = np.nonzero(g == self.boulder_glyph()) if self.boulder_glyph() else ([], [])
        self.boulders = set()
        for y, x in zip(list(by), list(bx)):
            self.boulders.add(cid(int(x), int(y)))
        p[1:22, 1:80] = q
        self.known = np.zeros((23, W), bool)
        self.known[1:22, 1:80] = (base > 0) | obj
        self.basef = np.zeros((23, W), np.int16)
        self.basef[1:22, 1:80] = base
        self.basef = self.basef.reshape(-1)
        self.known = self.known.reshape(-1)
        p = p.reshape(-1)
        for c, until in list(L.blocked.items()):
            if until > self.n:
                p[c] = 0
            else:
                del L.blocked[c]
        for m in self.mons:
            if m[4] in "PA" or (m[4] == "H" and any(s in m[3] for s in SESSILE)):
                p[cid(m[1], m[2])] = 0
        p[self.pos] = max(1, p[self.pos])
        self.p = p.tolist()

    def boulder_glyph(self):
        if not hasattr(self, "_bg"):
            self._bg = 0
        if not self._bg:
            ch = self.obs["chars"]
            g = self.g
            ys, xs = np.nonzero((g >= 1906) & (g < CM) & ((ch == ord('`')) | (ch == ord('0'))))
            for y, x in zip(ys.tolist(), xs.tolist()):
                if self.desc(x, y).startswith("boulder"):
                    self._bg = int(g[y, x])
                    break
        return self._bg

    def bfs(self, src, risky=False):
        p = self.p
        bf = self.basef
        door = [1 if bf[i] in DOORS else 0 for i in range(N)] if not hasattr(self, "_d") or self._dn != self.n else self._d
        self._d, self._dn = door, self.n
        dist = [-1] * N
        par = [-1] * N
        dist[src] = 0
        q = deque([src])
        bl = self.boulders
        edge = self.L.edge
        while q:
            c = q.popleft()
            d = dist[c] + 1
            for i in range(8):
                t = c + OFF[i]
                if dist[t] >= 0:
                    continue
                pt = p[t]
                if pt == 0 or (pt == 3 and not risky):
                    continue
                if i >= 4 and (door[c] or door[t]):
                    continue
                if t in bl:
                    # push only straight into known free floor
                    t2 = t + OFF[i]
                    if p[t2] != 1 or t2 in bl or (i >= 4 and door[t2]):
                        continue
                    if edge.get((c, t), 0) > self.n:
                        continue
                elif edge.get((c, t), 0) > self.n:
                    continue
                dist[t] = d
                par[t] = c
                q.append(t)
        return dist, par

    def path(self, par, t):
        r = [t]
        while par[r[-1]] >= 0:
            r.append(par[r[-1]])
        r.reverse()
        return r

    # ------------------------------------------------------------ movement
    def dirof(self, a, b):
        return OFF.index(b - a)

    def move1(self, t):
        """one step to neighbour cell t"""
        c = self.pos
        i = self.dirof(c, t)
        T0 = self.T
        lk = self.lk
        self.msg = ""
        yield from self.step(i)
        if not self.normal():
            yield from self.clear()
        if self.lk != lk:
            return True
        m = self.msg
        if self.pos == c:
            if "This door is locked" in m or "door is locked" in m:
                yield from self.kick(i, t)
                return False
            if "The door opens" in m or "door opens" in m:
                return True
            k = (c, t)
            L = self.L
            if "boulder" in m or "perhaps that" in m.lower():
                L.edge[k] = self.n + 2000
                return False
            if "shut" in m or "in the way" in m or "swap" in m or "stop" in m.lower() or "move onto" in m:
                L.edge[k] = self.n + 3
                return False
            if self.T == T0:
                L.edge[k] = self.n + (300 if i >= 4 else 60)
                self.fails = getattr(self, "fails", 0) + 1
                if self.fails > 3:
                    L.blocked[t] = self.n + 200
                    self.fails = 0
            else:
                L.kicks[k] = L.kicks.get(k, 0) + 1
                if L.kicks[k] % 12 == 0:
                    L.edge[k] = self.n + 100
            return False
        self.fails = 0
        return True

    def kick(self, i, t):
        L = self.L
        L.kicks[t] = L.kicks.get(t, 0) + 1
        if L.kicks[t] > 25 or L.shop and False:
            L.blocked[t] = self.n + 3000
            return
        self.msg = ""
        yield from self.step(KICK)
        yield from self.step(i)
        if "closed for inventory" in self.msg.lower():
            L.blocked[t] = self.n + 9000
        if not self.normal():
            yield from self.clear()

    def follow(self, path):
        """path[0]==pos; advance along it, cheaply"""
        if len(path) < 2:
            return
        n = len(path) - 1
        quiet = not self.hostile
        c0 = self.pos
        door = self._d
        if quiet and n >= 11 and self.travel_bad <= self.n and not (self.cond & 0x3e0):
            T0 = self.T
            pos0 = self.pos
            yield from self.travel(path[-1])
            if self.pos == pos0:
                self.travel_bad = self.n + 40
            return
        i = self.dirof(path[0], path[1])
        run = 1
        while run < n and path[run + 1] - path[run] == OFF[i] and self.p[path[run + 1]] == 1:
            run += 1
        if quiet and run >= 4 and self.p[path[1]] == 1 and not any(c in self.boulders for c in path[:run + 1]) and not (self.cond & 0x1c0):
            T0 = self.T
            pos0 = self.pos
            self.msg = ""
            for ch in str(run):
                yield from self.step(KEY[ch])
            yield from self.step(i)
            if not self.normal():
                yield from self.clear()
            if self.pos == pos0:
                yield from self.move1(path[1])
            return
        yield from self.move1(path[1])

    def travel(self, t):
        x, y = xy(t)
        self.msg = ""
        yield from self.step(KEY['_'])
        if self.normal() and "travel" not in self.top.lower():
            pass
        for _ in range(30):
            cy, cx = self.cur[0] - 1, self.cur[1]
            dx, dy = x - cx, y - cy
            if dx == 0 and dy == 0:
                break
            if abs(dx) >= 8 and abs(dy) >= 8:
                k = {(1, -1): 'U', (1, 1): 'N', (-1, 1): 'B', (-1, -1): 'Y'}[(int(np.sign(dx)), int(np.sign(dy)))]
            elif abs(dx) >= 6:
                k = 'L' if dx > 0 else 'H'
                if not (0 <= cx + (8 if dx > 0 else -8) <= 78):
                    k = k.lower()
            elif abs(dy) >= 6 and 0 <= cy + (8 if dy > 0 else -8) <= 20:
                k = 'J' if dy > 0 else 'K'
            elif dx and dy:
                k = {(1, -1): 'u', (1, 1): 'n', (-1, 1): 'b', (-1, -1): 'y'}[(int(np.sign(dx)), int(np.sign(dy)))]
            elif dx:
                k = 'l' if dx > 0 else 'h'
            else:
                k = 'j' if dy > 0 else 'k'
            before = self.cur
            yield from self.step(KEY[k])
            if self.cur == before:
                yield from self.clear()
                return
        yield from self.step(KEY['.'])
        if not self.normal():
            yield from self.clear()

    def clear(self):
        k = 0
        while not self.normal() and k < 6:
            if "Really attack" in self.top or "[yn" in self.top:
                self.msg += " | " + self.top
            yield from self.step(ESC)
            k += 1

    def wait(self, n):
        self.msg = ""
        T0 = self.T
        if n >= 3:
            for ch in str(n):
                yield from self.step(KEY[ch])
        yield from self.step(KEY['s'])
        if not self.normal():
            yield from self.clear()

    # ------------------------------------------------------------ needs
    def inv(self):
        r = []
        for l, c, s in zip(self.obs["inv_letters"], self.obs["inv_oclasses"], self.obs["inv_strs"]):
            if l:
                r.append((chr(int(l)), int(c), bytes(s).split(b"\0")[0].decode("latin1")))
        return r

    def can_pray(self):
        if self.lastpray is None:
            return self.T > 200
        return self.T - self.lastpray > 950

    def pray(self, why):
        self.say("PRAY", why)
        self.lastpray = self.T
        self.msg = ""
        yield from self.step(PRAY)
        for _ in range(4):
            if "[yn" in self.top and not self.normal():
                yield from self.step(KEY['y'])
            else:
                break
        if not self.normal():
            yield from self.clear()
        self.say("prayed:", self.msg[:300])

    def quaff_heal(self):
        for l, c, s in self.inv():
            if c == 8 and ("healing" in s):
                self.say("quaff", s)
                self.msg = ""
                yield from self.step(KEY['q'])
                if "drink from" in self.top or "[yn" in self.top:
                    yield from self.step(KEY['n'])
                if l in KEY:
                    yield from self.step(KEY[l])
                if not self.normal():
                    yield from self.clear()
                return True
        return False

    def eat_inv(self):
        best = None
        for l, c, s in self.inv():
            if c != 7 or l not in KEY:
                continue
            r = None
            for k, nm in enumerate(("food ration", "cram", "lembas", "pancake", "orange", "apple", "melon", "banana", "pear", "fortune cookie",
                                    "candy", "carrot", "kelp", "gunyoki", "K-ration", "C-ration", "cream pie", "slime mold", "royal jelly")):
                if nm in s:
                    r = k
                    break
            if r is None or "tin" in s.split():
                continue
            if self.hunger < 3 and r == 0 and False:
                continue
            if best is None or r < best[0]:
                best = (r, l, s)
        if not best:
            return False
        self.say("eat", best[2])
        self.msg = ""
        yield from self.step(KEY['e'])
        for _ in range(3):
            if "eat it?" in self.top or "eat one?" in self.top:
                yield from self.step(KEY['n'])
        yield from self.step(KEY[best[1]])
        if not self.normal():
            yield from self.clear()
        return True

    def elbereth(self):
        self.say("Elbereth")
        self.msg = ""
        yield from self.step(KEY['E'])
        yield from self.step(KEY['-'])
        for _ in range(6):
            t = self.top
            if "Do you want to add" in t:
                yield from self.step(KEY['n'])
            elif "want to write" in t and "?" in t and "add" not in t:
                break
            elif self.normal():
                break
            else:
                yield from self.step(MORE)
        if "want to write" in self.top:
            for ch in "Elbereth":
                yield KEY[ch]
            yield from self.step(MORE)
            self.elb = (self.lk, self.pos)
        if not self.normal():
            yield from self.clear()

    def cast(self, letter, d):
        self.msg = ""
        yield from self.step(KEY['Z'])
        if "Choose which spell" in self.screen() or " - " in self.screen():
            yield from self.step(KEY[letter])
            if "direction" in self.top:
                yield from self.step(d)
        else:
            self.nospell = self.n + 200
        if not self.normal():
            yield from self.clear()

    def spell(self):
        for l, c, s in self.inv():
            if c == 10:
                for k in ("sleep", "healing", "protection", "force bolt"):
                    if "spellbook of " + k in s:
                        return k
        return None

    def enhance(self):
        for _ in range(4):
            self.msg = ""
            yield from self.step(ENH)
            s = self.screen()
            if re.search(r"\ba - ", s):
                yield from self.step(KEY['a'])
                self.say("enhanced", self.msg[-80:])
                if not self.normal():
                    yield from self.clear()
            else:
                break
        if not self.normal():
            yield from self.clear()

    # ------------------------------------------------------------ goals
    def maxdepth(self):
        t = [1, 2, 3, 3, 4, 4, 5, 6, 7, 9, 10, 12, 14, 16, 18]
        d = t[min(self.xl, len(t)) - 1] + int(P["shift"])
        if self.n > P["dive_step"]:
            return 60
        return max(d, 1)

    def main(self):
        while True:
            self.scan()
            if not self.normal():
                self.msg = ""
                yield from self.step(ESC if b"--More--" not in bytes(self.tty.reshape(-1)) else MORE)
                if not self.normal():
                    yield from self.clear()
                    if not self.normal():
                        yield from self.step(self.rng.choice([ESC, MORE, KEY['s']]))
                continue
            n0 = self.n
            done = yield from self.turn()
            if self.n == n0:
                yield from self.wait(1)

    def turn(self):
        L = self.L
        if self.lk != self.prevlev:
            self.say("level", self.lk, "score", self.score)
            self.prevlev = self.lk
            self.arrived = self.n
            self.elb = None
        # critical conditions
        if self.cond & 0x1f and self.can_pray():
            yield from self.pray("condition")
            return
        if self.swallowed:
            yield from self.step(KEY['F'])
            yield from self.step(KEY['j'])
            if not self.normal():
                yield from self.clear()
            return
        low = self.hp < max(6, self.mhp / 7 + 1)
        if self.hp < 6 or self.hp * 7 < self.mhp:
            if self.can_pray():
                yield from self.pray("hp")
                return
        threat = [m for m in self.hostile if m[0] <= 3]
        if threat and (self.hp < self.mhp * 0.34):
            ok = yield from self.emergency(threat)
            if ok:
                return
        if self.hunger >= 3 and not threat:
            if self.can_pray():
                yield from self.pray("hunger")
                return
            ok = yield from self.eat_inv()
            if ok:
                return
        elif self.hunger == 2 and not threat and not self.can_pray():
            ok = yield from self.eat_inv()
            if ok:
                return
        if self.xl != self.lastxl or (self.enh_at and self.n >= self.enh_at):
            self.lastxl = self.xl
            self.enh_at = 0
            yield from self.enhance()
            return
        if self.hostile:
            ok = yield from self.fight()
            if ok:
                return
        # unseen attackers
        inv = [m for m in self.mons if m[4] == "I" and m[0] == 1]
        if inv:
            m = inv[0]
            k = (self.lk, m[1], m[2])
            self.invis[k] = self.invis.get(k, 0) + 1
            if self.invis[k] <= 6:
                i = DIRS.index((m[1] - self.x, m[2] - self.y))
                self.msg = ""
                yield from self.step(KEY['F'])
                yield from self.step(i)
                if not self.normal():
                    yield from self.clear()
                return
        if self.cond & 0x3e0:
            if self.cond & 0x1e0 or True:
                if not getattr(self, "hallu_wait", 0) > 60:
                    self.hallu_wait = getattr(self, "hallu_wait", 0) + 1
                    yield from self.wait(10)
                    return
        else:
            self.hallu_wait = 0
        # corpse eating
        ok = yield from self.corpse()
        if ok:
            return
        if self.hp < self.mhp * P["rest_frac"] and not self.adj:
            T0 = self.T
            yield from self.wait(20)
            if self.T - T0 >= 2 or self.hostile:
                return
        yield from self.explore()

    def emergency(self, threat):
        L = self.L
        adj = self.adj
        # stand on elbereth
        on_elb = self.elb == (self.lk, self.pos)
        if self.hp < self.mhp * 0.34:
            ok = yield from self.quaff_heal()
            if ok:
                return True
        b = int(L.base[self.y, self.x])
        sp = self.spell()
        if sp == "sleep" and self.pw >= 5 and adj and self.n > self.nospell:
            m = adj[0]
            if not getattr(self, "slept", {}).get((m[1], m[2]), 0) > self.T - 8:
                self.slept = {(m[1], m[2]): self.T}
                i = DIRS.index((m[1] - self.x, m[2] - self.y))
                self.say("cast sleep", m[3])
                yield from self.cast('a', i)
                return True
        if sp == "healing" and self.pw >= 5 and self.n > self.nospell:
            self.say("cast healing")
            yield from self.cast('a', KEY['.'])
            return True
        if on_elb and self.elbtries < 6:
            hp0 = self.hp
            yield from self.wait(1 if adj else 5)
            if self.hp < hp0:
                self.elbtries += 2
                self.elb = None
            return True
        noelb = any(("human" in m[3] or "minotaur" in m[3] or "shopkeeper" in m[3] or "guard" in m[3] or "Uruk" in m[3] and False) for m in adj)
        if b not in (23, 24, 25, 26, 27, 31) and not noelb:
            self.elbtries = getattr(self, "elbtries", 0)
            if getattr(self, "elb_last", -1000) < self.T - 60:
                self.elbtries = 0
            if self.elbtries < 5 and not self.cond & 0x20:
                self.elb_last = self.T
                self.elbtries += 1
                yield from self.elbereth()
                return True
        if b in (23, 24) and adj and getattr(self, "lastflee", -1000) < self.T - 30 and not (b == 23 and self.depth == 1):
            self.lastflee = self.T
            self.say("flee stairs")
            yield from self.step(16 if b == 23 else 17)
            return True
        for nm in ("scroll of teleportation",):
            for l, c, s in self.inv():
                if nm in s and l in KEY and adj:
                    self.say("read tele")
                    yield from self.step(KEY['r'])
                    yield from self.step(KEY[l])
                    if not self.normal():
                        yield from self.clear()
                    return True
        return False

    def attack(self, m):
        i = DIRS.index((m[1] - self.x, m[2] - self.y))
        name = m[3]
        c = cid(m[1], m[2])
        self.msg = ""
        door = False
        yield from self.step(KEY['F']) if False else self.step(i)
        if not self.normal():
            t = self.top
            yield from self.clear()
            if "Really" in self.msg or "Really" in t:
                self.L.blocked[c] = self.n + 20
        ms = self.msg
        if "kill" in ms or "destroy" in ms:
            self.L.kills[c] = (name, self.T)
        if "more confident" in ms:
            self.enh_at = self.n

    def fight(self):
        L = self.L
        if self.adj:
            # do not fight while diagonal through doors is blocked
            cand = []
            for m in self.adj:
                c = cid(m[1], m[2])
                if L.blocked.get(c, 0) > self.n:
                    continue
                cand.append(m)
            if cand:
                self.build()
                self.bfs_door()
                good = []
                for m in cand:
                    c = cid(m[1], m[2])
                    diag = m[1] != self.x and m[2] != self.y
                    if diag and (self._d[self.pos] or self._d[c]):
                        continue
                    good.append(m)
                if good:
                    key = lambda m: (any(s in m[3] for s in SESSILE), m[3])
                    good.sort(key=key)
                    yield from self.attack(good[0])
                    return True
                # hostile diagonal at door: wait for it
                k = getattr(self, "dw", 0)
                self.dw = k + 1
                if k % 10 < 5:
                    yield from self.wait(1)
                    return True
        self.build()
        dist, par = self.bfs(self.pos)
        near = []
        for m in self.hostile:
            if m[0] > 9:
                continue
            c = cid(m[1], m[2])
            if any(s in m[3] for s in SESSILE) and "lichen" not in m[3]:
                continue
            d = min([dist[c + o] for o in OFF if dist[c + o] >= 0] + [999])
            if d <= 12:
                near.append((d, m, c))
        if not near:
            return False
        near.sort(key=lambda r: r[0])
        d, m, c = near[0]
        k = (self.lk, m[3])
        if not hasattr(self, "chase"):
            self.chase = {}
        cnt, t0 = self.chase.get(k, (0, self.n))
        if self.n - t0 > 150:
            cnt, t0 = 0, self.n
        self.chase[k] = (cnt + 1, t0)
        if cnt > 25:
            return False
        # melee-range soon: let it come
        if d <= 1 and m[0] == 2 and cnt % 4 < 2:
            yield from self.wait(1)
            return True
        if self.hp < self.mhp * P["fight_frac"]:
            if cnt < 12:
                yield from self.wait(1)
                return True
            return False
        best = None
        for o in OFF:
            if dist[c + o] >= 0 and (best is None or dist[c + o] < dist[best]):
                best = c + o
        pth = self.path(par, best)
        if len(pth) < 2:
            yield from self.wait(1)
            return True
        yield from self.move1(pth[1])
        return True

    def bfs_door(self):
        bf = self.basef
        self._d = [1 if bf[i] in DOORS else 0 for i in range(N)]
        self._dn = self.n

    def corpse(self):
        L = self.L
        if not L.kills or self.hunger == 0:
            return False
        if self.hunger < 2 and self.T < self.nutr_t:
            return False
        best = None
        for c, (nm, t) in list(L.kills.items()):
            if self.T - t > 25:
                del L.kills[c]
                continue
            x, y = xy(c)
            if any(b in nm for b in BADCORPSE) or (self.xl < 3 and any(b in nm for b in POIS)):
                del L.kills[c]
                continue
            if c == self.pos or "corpse" in self.desc(x, y):
                best = c
        if best is None:
            return False
        if best != self.pos:
            self.build()
            dist, par = self.bfs(self.pos)
            if dist[best] < 0 or dist[best] > 8:
                del L.kills[best]
                return False
            yield from self.follow(self.path(par, best))
            return True
        nm = L.kills.pop(best)[0]
        self.msg = ""
        T0 = self.T
        yield from self.step(KEY['e'])
        for _ in range(5):
            t = self.top
            if "eat it?" in t or "eat one?" in t:
                mm = re.search(r"(?:There is|There are) (?:an?|\d+|some)? ?(.*?) corpses? here", t)
                cn = mm.group(1) if mm else ""
                bare = nm.replace("peaceful ", "")
                if cn and (cn == bare or cn.replace("partly eaten ", "") == bare):
                    yield from self.step(KEY['y'])
                    if self.T - T0 > 0:
                        self.nutr_t = max(self.nutr_t, self.T) + min(800, 30 + 12 * (self.T - T0) if self.T - T0 > 3 else 60)
                        self.say("ate", cn)
                else:
                    yield from self.step(KEY['n'])
            else:
                break
        if not self.normal():
            yield from self.clear()
        return True

    def explore(self):
        L = self.L
        self.msg = self.msg or ""
        self.build()
        base = L.base
        # mines handling
        b0 = int(base[self.y, self.x])
        if self.dnum == 2 and b0 in (23, 25):
            up = True
        md = self.maxdepth()
        dist, par = self.bfs(self.pos)
        dn = [cid(x, y) for y, x in zip(*[a.tolist() for a in np.nonzero((base == 24) | (base == 26))])]
        up = [cid(x, y) for y, x in zip(*[a.tolist() for a in np.nonzero((base == 23) | (base == 25))])]
        dn = [c for c in dn if c not in L.mines_stairs]
        in_mines = self.dnum == 2
        if in_mines:
            t = [c for c in up if dist[c] >= 0]
            if t:
                if t[0] == self.pos:
                    pl = self.lk
                    yield from self.step(KEY['<'])
                    if self.lk != pl and self.dnum == 0:
                        self.L.mines_stairs.add(self.pos)
                    return
                yield from self.follow(self.path(par, t[0]))
                return
        go = self.depth < md and not in_mines
        if L.steps > 1500:
            go = go or self.depth < md + 2
        rd = [c for c in dn if dist[c] >= 0]
        if rd and go:
            c = rd[0]
            if c == self.pos:
                if self.hp < self.mhp * 0.75 and self.n < self.maxsteps - 300 and self.hp < self.mhp - 3:
                    k = L.kicks.get("rest", 0)
                    if k < 40:
                        L.kicks["rest"] = k + 1
                        yield from self.wait(20)
                        return
                pl = self.lk
                yield from self.step(KEY['>'])
                if not self.normal():
                    yield from self.clear()
                if self.lk == pl:
                    L.kicks["down"] = L.kicks.get("down", 0) + 1
                    if L.kicks["down"] > 5:
                        L.mines_stairs.add(self.pos)
                return
            yield from self.follow(self.path(par, c))
            return
        # gold
        ch = self.obs["chars"]
        g = self.g
        best = None
        ys, xs = np.nonzero((ch == 36) & (g >= 1906) & (g < CM))
        for y, x in zip(ys.tolist(), xs.tolist()):
            c = cid(x, y)
            if dist[c] > 0 and c not in L.badgold and (best is None or dist[c] < dist[best]):
                best = c
        if best is not None and not L.shop and dist[best] < 60:
            k = L.kicks.get(("g", best), 0)
            L.kicks[("g", best)] = k + 1
            if k > 12:
                L.badgold.add(best)
            else:
                if dist[best] == 1:
                    L.badgold.add(best)
                yield from self.follow(self.path(par, best))
                return
        # frontier
        kn = self.known
        best = None
        bs = 1e9
        p = self.p
        bf = self.basef
        for c in range(N):
            d = dist[c]
            if d <= 0 or c in L.visited:
                continue
            u = 0
            for o in OFF:
                if not kn[c + o]:
                    u += 1
            if u == 0:
                continue
            x, y = xy(c)
            if x <= 0 or x >= 78 or y <= 0 or y >= 20:
                uu = 0
            s = d - min(u, 3) * 0.5
            if bf[c] in (15, 16):
                s += 3
            if s < bs:
                bs, best = s, c
        if best is not None:
            k = ("f", best)
            L.kicks[k] = L.kicks.get(k, 0) + 1
            if L.kicks[k] > 40:
                L.visited.add(best)
                return
            yield from self.follow(self.path(par, best))
            if "Welcome" in self.msg and ("shop" in self.msg or "store" in self.msg or "'s" in self.msg) or "leave your pick" in self.msg:
                self.say("shop:", self.msg[:120])
                yield from self.shop()
            return
        # explored: farm or search
        if rd and not go:
            yield from self.farm(rd, dist, par)
            return
        # risky path
        dist2, par2 = self.bfs(self.pos, True)
        tgt = [c for c in dn if dist2[c] > 0] if go else []
        if not tgt:
            tgt = [c for c in range(N) if dist2[c] > 0 and dist[c] < 0 and c not in L.visited]
        if tgt:
            tgt.sort(key=lambda c: dist2[c])
            t = tgt[0]
            k = ("r", t)
            L.kicks[k] = L.kicks.get(k, 0) + 1
            if L.kicks[k] < 15:
                pth = self.path(par2, t)
                yield from self.move1(pth[1])
                return
        # search
        if L.nsearch > 60 and not go:
            yield from self.farm(rd or up, dist, par)
            return
        best, bs = None, 1e9
        for c in range(N):
            d = dist[c]
            if d < 0:
                continue
            deg = 0
            wall = 0
            unk = 0
            for i, o in enumerate(OFF):
                if p[c + o]:
                    deg += 1
                elif not kn[c + o]:
                    unk += 1
                elif i < 4 and 1 <= bf[c + o] <= 11:
                    # wall: how much unknown behind
                    x, y = xy(c)
                    dx, dy = DIRS[i]
                    s = 0
                    for r in range(2, 9):
                        xx, yy = x + dx * r, y + dy * r
                        if 1 <= xx < 78 and 1 <= yy < 20 and not kn[cid(xx, yy)]:
                            s += 1
                    if s >= 4:
                        wall = max(wall, s)
            sc = None
            b = bf[c]
            if b in (21, 22, 12, 13, 14) and deg <= 1:
                sc = d * 0.5
            elif b in (21, 22) and deg == 2:
                sc = d * 0.5 + 60
            elif wall:
                sc = d * 0.5 + 40 - wall * 3
            if sc is None:
                continue
            sc += L.search.get(c, 0) * 25
            if sc < bs:
                bs, best = sc, c
        if best is None:
            L.nsearch += 1
            yield from self.wait(10)
            return
        if best == self.pos:
            for o in OFF + [0, 2, -2, 2 * W, -2 * W]:
                L.search[self.pos + o] = L.search.get(self.pos + o, 0) + 1
            L.nsearch += 1
            if L.nsearch % 10 == 0:
                self.say("searching", L.nsearch)
                L.blocked.clear()
                L.edge.clear()
            yield from self.wait(12)
            return
        yield from self.follow(self.path(par, best))

    def shop(self):
        L = self.L
        # mark door blocked, turn back
        L.shop = True
        door = self.pos
        self.build()
        dist, par = self.bfs(self.pos)
        back = [c for c in (self.pos + o for o in OFF) if c in L.visited and dist[c] == 1]
        L.blocked[door] = self.n + 9000
        if back:
            yield from self.move1(back[0])
        L.blocked[door] = self.n + 9000

    def farm(self, st, dist, par):
        st = [c for c in st if dist[c] >= 0]
        if st and self.pos not in st and self.L.kicks.get("farmgo", 0) < 40:
            self.L.kicks["farmgo"] = self.L.kicks.get("farmgo", 0) + 1
            yield from self.follow(self.path(par, st[0]))
            return
        if self.pos in st:
            self.L.kicks["farmgo"] = 0
        T0 = self.T
        yield from self.wait(150 if self.hp > self.mhp * 0.6 else 40)
