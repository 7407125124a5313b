import json, random, time
from collections import deque
import numpy as np

DR=(-1,0,1,0); DC=(0,1,0,-1)

class Net:
    """Graph of (cell, heading) states."""
    def __init__(self, rails, targets, starts):
        H,W,_=rails.shape
        R=rails.reshape(H,W,4,4)
        self.W=W
        self.id={}; self.st=[]
        succ=[]
        stack=[]
        def get(r,c,d):
            k=(r,c,d)
            if k not in self.id:
                self.id[k]=len(self.st); self.st.append(k); succ.append(None); stack.append(k)
            return self.id[k]
        for s in starts: get(*s)
        while stack:
            r,c,d=k=stack.pop()
            i=self.id[k]; L=[]
            for e in range(4):
                if R[r,c,d,e]:
                    a,b=r+DR[e],c+DC[e]
                    if 0<=a<H and 0<=b<W and R[a,b].any():
                        L.append(get(a,b,e))
            succ[i]=L
        self.n=len(self.st)
        self.cell=[r*W+c for r,c,d in self.st]
        self.succ=succ
        self.pred=[[] for _ in range(self.n)]
        for i,L in enumerate(succ):
            for j in L: self.pred[j].append(i)
        self.dist={}
        self.full=succ
    def oneway(self, pairs, tol, log):
        """Forbid one direction of stretches without branches, where that costs little. pairs: {(start, target cell): trains}."""
        n=self.n; st=self.st; cell=self.cell
        bycell={}
        for i in range(n): bycell.setdefault(cell[i],[]).append(i)
        rev={}
        for c,L in bycell.items():
            if len(L)==2:
                a,b=L
                if len(self.succ[a])==1 and len(self.succ[b])==1:
                    ea=st[self.succ[a][0]][2]; eb=st[self.succ[b][0]][2]
                    if st[b][2]==(ea+2)%4 and st[a][2]==(eb+2)%4: rev[a]=b; rev[b]=a
        seen=set(); chains=[]
        for s in rev:
            if s in seen: continue
            ch=[s]; seen.add(s)
            x=self.succ[s][0]
            while x in rev and x not in seen: ch.append(x); seen.add(x); x=self.succ[x][0]
            x=s
            while True:
                ps=[p for p in self.pred[x] if p in rev and p not in seen]
                if len(self.pred[x])!=1 or not ps: break
                x=ps[0]; ch.insert(0,x); seen.add(x)
            chains.append(ch)
        done=set(); both=[]
        for ch in chains:
            k=frozenset(cell[x] for x in ch)
            if k in done: continue
            done.add(k); both.append((ch,[rev[x] for x in ch]))
        both.sort(key=lambda b:-len(b[0]))
        targets={}
        for (s,tc),m in pairs.items(): targets.setdefault(tc,[]).append((s,m))
        forb=[False]*n
        def cost():
            tot=0
            for tc,L in targets.items():
                D=[-1]*n; q=deque()
                for i in range(n):
                    if cell[i]==tc and not forb[i]: D[i]=0; q.append(i)
                while q:
                    i=q.popleft()
                    for p in self.pred[i]:
                        if D[p]<0 and cell[p]!=tc and not forb[p]: D[p]=D[i]+1; q.append(p)
                for s,m in L: tot+=m*(D[s] if D[s]>=0 else 400)
            return tot
        base=first=cost(); nf=0
        for ch,rv in both:
            res=[]
            for side in (ch,rv):
                for x in side: forb[x]=True
                res.append(cost())
                for x in side: forb[x]=False
            b=0 if res[0]<=res[1] else 1
            if res[b]-base<=tol*first:
                for x in (ch,rv)[b]: forb[x]=True
                base=res[b]; nf+=1
        self.forb=forb
        self.succ=[[x for x in L if not forb[x]] for L in self.full]
        self.pred=[[] for _ in range(n)]
        for i,L in enumerate(self.succ):
            if forb[i]: continue
            for j in L: self.pred[j].append(i)
        # a train that stands on a forbidden state may leave it
        for i in range(n):
            if forb[i]:
                for j in self.succ[i]: self.pred[j].append(i)
        self.dist={}
        log.append(('chains',len(both),'oneway',nf,'cost',first,base))
    def distances(self, tcell):
        D=self.dist.get(tcell)
        if D is None:
            D=[-1]*self.n; q=deque()
            for i in range(self.n):
                if self.cell[i]==tcell: D[i]=0; q.append(i)
            while q:
                i=q.popleft()
                for p in self.pred[i]:
                    if D[p]<0 and self.cell[p]!=tcell: D[p]=D[i]+1; q.append(p)
            self.dist[tcell]=D
        return D

class Planner:
    def __init__(self, net, T):
        self.net=net; self.T=T
        self.occ={}; self.swap={}
    def reserve(self, path, tc):
        cell=self.net.cell; occ=self.occ; sw=self.swap
        for k,(t,s) in enumerate(path):
            c=cell[s]; end=path[k+1][0] if k+1<len(path) else t+1 if c==tc else self.T+1
            occ[c]=occ.get(c,0)|(((1<<(end-t))-1)<<t)
            if k+1<len(path):
                key=(cell[path[k+1][1]],c); sw[key]=sw.get(key,0)|(1<<(end-1))
    def release(self, path, tc):
        cell=self.net.cell; occ=self.occ; sw=self.swap
        for k,(t,s) in enumerate(path):
            c=cell[s]; end=path[k+1][0] if k+1<len(path) else t+1 if c==tc else self.T+1
            occ[c]&=~(((1<<(end-t))-1)<<t)
            if k+1<len(path):
                key=(cell[path[k+1][1]],c); sw[key]&=~(1<<(end-1))
    def plan(self, s0, tcell, t0, onmap, tmax=None):
        """Earliest arrival; path of (time of entering, state) or None. On the map: stands in s0 at t0."""
        net=self.net; cell=net.cell; succ=net.succ; T=self.T if tmax is None else min(self.T,tmax)
        D=net.distances(tcell)
        if D[s0]<0 or t0+D[s0]>T: return None
        occ=self.occ; sw=self.swap
        # iterative deepening of the horizon keeps the search small
        hor=t0+D[s0]+20
        while True:
            H=min(hor,T)
            R={}
            full=(1<<(H+1))-1
            F={}
            def free(s):
                c=cell[s]; f=F.get(c)
                if f is None: f=F[c]=full&~occ.get(c,0)
                return f
            f0=free(s0)
            lim=(1<<(H-D[s0]+1))-1
            if onmap:
                x=1<<t0
                if not f0&x: return None
                x=((f0&~(f0+x))|x)&lim
            else: x=f0&~((1<<t0)-1)&lim
            best=None
            if x:
                R[s0]=x; q=deque([s0]); inq={s0}
                while q:
                    s=q.popleft(); inq.discard(s)
                    r=R[s]; c=cell[s]
                    for s2 in succ[s]:
                        d=D[s2]
                        if d<0 or H<d: continue
                        c2=cell[s2]
                        y=r
                        b=sw.get((c,c2))
                        if b: y&=~b
                        f=free(s2)
                        y=(y<<1)&f
                        if d==0:
                            y&=full
                            if y:
                                old=R.get(s2,0)
                                R[s2]=old|y
                            continue
                        if y:
                            y=((f&~(f+y))|y)&((1<<(H-d+1))-1)
                            old=R.get(s2,0)
                            if y&~old:
                                R[s2]=old|y
                                if s2 not in inq: inq.add(s2); q.append(s2)
                for s in R:
                    if D[s]==0:
                        y=R[s]; t=(y&-y).bit_length()-1
                        if best is None or t<best[0]: best=(t,s)
            if best is not None: break
            if H>=T: return None
            hor=t0+2*(hor-t0)+20
        # backwards, entering each cell as late as can be
        t,s=best
        path=[(t,s)]
        pred=net.pred
        while True:
            if s==s0 and not onmap and t>=t0 and True:
                # could have entered here
                if R[s0]>>t&1 and (len(path)==1 or True): 
                    break
            if s==s0 and onmap and t==t0: break
            found=False
            if t>0:
                c=cell[s]
                for p in pred[s]:
                    if D[p]==0: continue
                    if R.get(p,0)>>(t-1)&1 and not sw.get((cell[p],c),0)>>(t-1)&1:
                        s=p; t-=1; path.append((t,s)); found=True; break
            if not found:
                # waited here
                t-=1
                path[-1]=(t,s)
                if t<t0: raise RuntimeError('backtrack')
        path.reverse()
        return path

PAR=dict(restarts=12,its_init=150,its_event=30,its_step=0,early=0,tol=0.03,orders=2,slack=6,stretch=1.0)
class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.par=dict(PAR)
        try: self.par.update(json.load(open('parameters.json')))
        except OSError: pass
    def reset(self, episode_index):
        self.ready=False; self.failed=False
        self.rng=random.Random(1)
        self.cpu=0.0; self.events=0
    # ---- set-up
    def setup(self, obs):
        tr=obs['trains'].tolist(); self.n=len(tr)
        t=int(obs['time'][0]); self.T=int(obs['time'][1])
        self.net=Net(obs['rails'],None,[(a[5],a[6],a[7]) for a in tr])
        W=self.net.W
        self.start=[self.net.id[(a[5],a[6],a[7])] for a in tr]
        self.tc=[a[3]*W+a[4] for a in tr]
        self.rel=[a[10] for a in tr]
        self.miss=3*self.T
        t1=time.process_time(); log=[]
        if self.par['tol']>=0:
            pairs={}
            for i in range(self.n):
                k=(self.start[i],self.tc[i]); pairs[k]=pairs.get(k,0)+1
            self.net.oneway(pairs,self.par['tol'],log)
        print(log)
        self.k=[-1]*self.n; self.done=[False]*self.n
        self.read(tr,t)
        best=None
        D=self.D=[self.net.distances(self.tc[i])[self.start[i]] for i in range(self.n)]
        for it in range(int(self.par['restarts'])):
            if it==0: order=sorted(range(self.n),key=lambda i:(self.rel[i]+D[i]))
            elif it==1: order=sorted(range(self.n),key=lambda i:D[i])
            elif it==2: order=sorted(range(self.n),key=lambda i:self.rel[i])
            else: order=sorted(range(self.n),key=lambda i:D[i]+self.rel[i]*self.rng.random()+self.rng.uniform(0,60))
            pl=Planner(self.net,self.T); paths=[None]*self.n
            for i in order:
                if D[i]<0: continue
                p=self.off(pl,i)
                if p: pl.reserve(p,self.tc[i]); paths[i]=p
            cost=sum(self.cost1(i,p) for i,p in enumerate(paths))
            if best is None or cost<best[0]: best=(cost,pl,paths)
        c0,self.pl,self.paths=best
        na=sum(p is not None for p in self.paths)
        self.lns(t,int(self.par['its_init']))
        print('T',self.T,'states',self.net.n,'cells',len(set(self.net.cell)),'D',np.mean(D),'planned',na,sum(p is not None for p in self.paths),'cpu',round(time.process_time()-t1,2),flush=True)
        self.queues()
    def cost1(self,i,p):
        if p is None or self.net.cell[p[-1][1]]!=self.tc[i]: return self.miss
        return p[-1][0]
    def read(self,tr,t):
        """free[i]: off the map, first time of standing on it; on the map, first time at which it can leave its cell."""
        f=self.free=[0]*self.n
        for i,a in enumerate(tr):
            if a[0]>=0: f[i]=t+a[9]
            elif a[8]==2: f[i]=max(t+a[9]+2,a[10]+1)
            else: f[i]=max(t+1,a[10]+1)
    def off(self,pl,i):
        p=pl.plan(self.start[i],self.tc[i],self.free[i],False)
        if p and p[-1][0]-p[0][0]>self.D[i]*self.par['stretch']+self.par['slack']: return None
        return p
    def lns(self, t, its):
        """Replan small groups of trains; paths are timed and free of conflicts from now on."""
        pl=self.pl; paths=self.paths; rng=self.rng; cost1=self.cost1
        for it in range(its):
            live=[i for i in range(self.n) if not self.done[i] and self.D[i]>=0]
            miss=[i for i in live if cost1(i,paths[i])==self.miss]
            act=[i for i in live if paths[i] is not None]
            if not live: break
            m=rng.choice((2,4,7))
            mode=rng.random()
            if act:
                if mode<.4:
                    w=sorted(((rng.random()**(1.0/(1+self.delay(i))),i) for i in act),reverse=True); grp=[i for _,i in w[:m]]
                elif mode<.7 and miss:
                    # those in the way of a train that doesn't arrive
                    j=rng.choice(miss); D=self.net.distances(self.tc[j])
                    s=self.start[j] if self.k[j]<0 else paths[j][0][1]
                    cells=set(); 
                    for _ in range(60):
                        cells.add(self.net.cell[s]); nx=[x for x in self.net.succ[s] if D[x]>=0 and D[x]<D[s]]
                        if not nx: break
                        s=rng.choice(nx)
                    c=[i for i in act if i!=j and any(self.net.cell[x] in cells for _,x in paths[i])]
                    grp=[j]+rng.sample(c,min(m,len(c)))
                else: grp=rng.sample(act,min(m,len(act)))
            else: grp=[]
            if miss:
                for j in rng.sample(miss,min(len(miss),rng.choice((1,1,2)))):
                    if j not in grp: grp.append(j)
            old={i:paths[i] for i in grp}
            oc=sum(cost1(i,p) for i,p in old.items())
            for i in grp:
                if paths[i]: pl.release(paths[i],self.tc[i])
            rng.shuffle(grp)
            if rng.random()<.6: grp.sort(key=lambda i:self.k[i]<0)
            new={}; nc=0; ok=True
            hold={}
            for i in grp:
                if self.k[i]>=0:
                    c=self.net.cell[old[i][0][1]]; b=((1<<(self.free[i]-t+1))-1)<<t
                    hold[i]=(c,b); pl.occ[c]=pl.occ.get(c,0)|b
            for i in grp:
                if self.k[i]>=0:
                    c,b=hold.pop(i); pl.occ[c]&=~b
                    p=pl.plan(old[i][0][1],self.tc[i],self.free[i],True)
                    if p: p[0]=(t,p[0][1])
                else: p=self.off(pl,i)
                if p is None:
                    if self.k[i]>=0: ok=False; break
                else: pl.reserve(p,self.tc[i])
                nc+=cost1(i,p); new[i]=p
                if nc>oc: ok=False; break
            for c,b in hold.values(): pl.occ[c]&=~b
            if ok and nc<=oc:
                for i in grp: paths[i]=new[i]
            else:
                for i,p in new.items():
                    if p: pl.release(p,self.tc[i])
                for i in grp:
                    if old[i]: pl.reserve(old[i],self.tc[i])
    def delay(self,i):
        p=self.paths[i]
        return max(0,p[-1][0]-self.rel[i]-self.D[i])
    # ---- execution: every cell is entered in the planned order
    def queues(self):
        cell=self.net.cell; ev=[]
        for i,p in enumerate(self.paths):
            if p and not self.done[i]:
                if self.k[i]>=0: self.k[i]=0
                for k in range(len(p)): ev.append((p[k][0],i,k,cell[p[k][1]]))
        ev.sort()
        self.q={}
        for t,i,k,c in ev: self.q.setdefault(c,deque()).append((i,k))
    def simulate(self, t):
        """What becomes of the plan from now on, each cell in the planned order: new timed paths."""
        cell=self.net.cell; T=self.T
        q={c:deque(x) for c,x in self.q.items()}
        k=list(self.k); paths=self.paths; early=self.par['early']
        live=[i for i in range(self.n) if not self.done[i] and paths[i] is not None and k[i]>=0]
        ls=set(live)
        for c in q: q[c]=deque(x for x in q[c] if x[0] in ls)
        out={i:([(t,paths[i][k[i]][1])] if k[i]>=0 else []) for i in live}
        for tau in range(t,T):
            memo={}
            def can(i):
                r=memo.get(i)
                if r is not None: return r
                memo[i]=False
                kk=k[i]+1; p=paths[i]
                if kk>=len(p): return False
                if k[i]<0:
                    if tau+1<self.free[i] or (not early and tau+1<p[0][0]): return False
                elif tau<self.free[i]: return False
                x=q[cell[p[kk][1]]]
                if x[0]==(i,kk): ok=True
                elif len(x)>1 and x[1]==(i,kk):
                    j,kj=x[0]; ok=k[j]==kj and can(j)
                else: ok=False
                memo[i]=ok
                return ok
            mv=[i for i in live if can(i)]
            gone=set()
            for i in mv:
                p=paths[i]
                if k[i]>=0: q[cell[p[k[i]][1]]].remove((i,k[i]))
                k[i]+=1
                out[i].append((tau+1,p[k[i]][1]))
                if k[i]==len(p)-1 and cell[p[-1][1]]==self.tc[i]:
                    gone.add(i)
            if gone:
                for i in gone: q[cell[paths[i][-1][1]]].remove((i,k[i]))
                live=[i for i in live if i not in gone]
        for i in out: paths[i]=out[i]
    def rebuild(self, t, its):
        old=list(self.paths)
        self.simulate(t)
        for i in range(self.n):
            if self.k[i]>=0: self.k[i]=0
        onm=[i for i in range(self.n) if self.k[i]>=0 and not self.done[i] and self.paths[i]]
        off=[i for i in range(self.n) if self.k[i]<0 and not self.done[i] and self.D[i]>=0]
        best=None
        for it in range(int(self.par['orders'])):
            if it==0: order=sorted(off,key=lambda i:(old[i][0][0] if old[i] else 10000+self.D[i]))
            elif it==1: order=sorted(off,key=lambda i:max(t,self.free[i])+self.D[i])
            elif it==2: order=sorted(off,key=lambda i:self.D[i])
            else: order=sorted(off,key=lambda i:self.D[i]+self.free[i]*self.rng.random()+self.rng.uniform(0,40))
            pl=Planner(self.net,self.T)
            for i in onm: pl.reserve(self.paths[i],self.tc[i])
            new={}
            for i in order:
                p=self.off(pl,i)
                if p: pl.reserve(p,self.tc[i])
                new[i]=p
            c=sum(self.cost1(i,p) for i,p in new.items())
            if best is None or c<best[0]: best=(c,pl,new)
        self.pl=best[1]
        for i,p in best[2].items(): self.paths[i]=p
        self.lns(t,its)
        self.queues()
    def act(self, obs):
        t1=time.process_time()
        tr=obs['trains'].tolist(); t=int(obs['time'][0])
        if not self.ready:
            self.setup(obs); self.ready=True; self.pm=[a[9] for a in tr]
        net=self.net; cell=net.cell
        self.read(tr,t)
        event=any(a[9]>m for a,m in zip(tr,self.pm)); self.pm=[a[9] for a in tr]
        for i,a in enumerate(tr):
            if self.done[i] or self.paths[i] is None: continue
            p=self.paths[i]
            if a[8]==6:
                for k in range(max(self.k[i],0),len(p)):
                    q=self.q[cell[p[k][1]]]
                    if (i,k) in q: q.remove((i,k))
                self.done[i]=True; self.k[i]=-1; continue
            if a[0]>=0:
                if self.k[i]<0: self.k[i]=0
                s=(a[0],a[1],a[2])
                while net.st[p[self.k[i]][1]]!=s:
                    q=self.q[cell[p[self.k[i]][1]]]
                    if (i,self.k[i]) in q: q.remove((i,self.k[i]))
                    self.k[i]+=1
                    if self.k[i]>=len(p): raise RuntimeError(f'lost {t} {i} {s}')
        if event:
            self.events+=1
            self.rebuild(t,int(self.par['its_event']))
        elif self.par['its_step'] and t%5==0: self.rebuild(t,int(self.par['its_step']))
        act=[0]*self.n
        memo={}; early=self.par['early']
        def can(i):
            r=memo.get(i)
            if r is not None: return r
            memo[i]=False
            a=tr[i]
            k=self.k[i]+1; p=self.paths[i]
            if k>=len(p): return False
            if k==0:
                if a[8]!=1 or (not early and t+1<p[0][0]): return False
            elif a[9]>0: return False
            q=self.q[cell[p[k][1]]]
            ok=False
            if q[0]==(i,k): ok=True
            elif len(q)>1 and q[1]==(i,k):
                j,kj=q[0]
                ok=self.k[j]==kj and not self.done[j] and can(j)
            memo[i]=ok
            return ok
        for i,a in enumerate(tr):
            if self.done[i] or self.paths[i] is None: continue
            on=a[0]>=0
            if can(i):
                if not on: act[i]=2
                else:
                    p=self.paths[i]; s=p[self.k[i]][1]; s2=p[self.k[i]+1][1]
                    d=a[2]; d2=net.st[s2][2]
                    if len(net.full[s])==1: act[i]=2
                    else: act[i]={0:2,1:3,3:1,2:2}[(d2-d)%4]
            elif on: act[i]=4
        self.cpu+=time.process_time()-t1
        if t%20==0 or t>=self.T-2:
            print('t',t,'done',sum(self.done),'on',sum(k>=0 for k in self.k),'planned',sum(not self.done[i] and self.cost1(i,self.paths[i])<self.miss for i in range(self.n)),'events',self.events,'cpu',round(self.cpu,2),flush=True)
        return np.array(act,dtype=np.int64)
