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
    def reserve(self, path):
        cell=self.net.cell; occ=self.occ; sw=self.swap
        for k,(t,s) in enumerate(path):
            c=cell[s]; end=path[k+1][0] if k+1<len(path) else t+1
            occ[c]=occ.get(c,0)|(((1<<(end-t))-1)<<t)
            if k+1<len(path):
                key=(cell[path[k+1][1]],c); sw[key]=sw.get(key,0)|(1<<(end-1))
    def release(self, path):
        cell=self.net.cell; occ=self.occ; sw=self.swap
        for k,(t,s) in enumerate(path):
            c=cell[s]; end=path[k+1][0] if k+1<len(path) else t+1
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

class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        try: self.par=json.load(open('parameters.json'))
        except Exception: self.par={}
    def reset(self, episode_index):
        self.ready=False
        self.rng=random.Random(1)
        self.log=0
    # ---- set-up
    def setup(self, obs):
        tr=obs['trains'].tolist(); self.n=len(tr)
        t=int(obs['time'][0]); self.T=int(obs['time'][1])
        self.net=Net(obs['rails'],None,[(a[5],a[6],a[7]) for a in tr])
        W=self.net.W
        self.start=[self.net.id[(a[5],a[6],a[7])] for a in tr]
        self.tc=[a[3]*W+a[4] for a in tr]
        self.rel=[a[10] for a in tr]
        self.ready=True
        t1=time.process_time()
        self.best=None
        budget=self.par.get('t_init',1.5)
        D=[self.net.distances(self.tc[i])[self.start[i]] for i in range(self.n)]
        it=0
        while True:
            if it==0: order=sorted(range(self.n),key=lambda i:(self.rel[i]+D[i]))
            elif it==1: order=sorted(range(self.n),key=lambda i:D[i])
            elif it==2: order=sorted(range(self.n),key=lambda i:self.rel[i])
            else:
                if time.process_time()-t1>budget*.4: break
                order=sorted(range(self.n),key=lambda i:D[i]+self.rel[i]*self.rng.random()+self.rng.uniform(0,60))
            pl=Planner(self.net,self.T); paths=[None]*self.n
            for i in order:
                if D[i]<0: continue
                p=pl.plan(self.start[i],self.tc[i],max(t+1,self.rel[i]+1),False)
                if p: pl.reserve(p); paths[i]=p
            cost=sum(p[-1][0] if p else 2*self.T for p in paths)
            if self.best is None or cost<self.best[0]: self.best=(cost,pl,paths)
            it+=1
        self.cost,self.pl,self.paths=self.best
        na=sum(p is not None for p in self.paths)
        c0=self.cost
        self.k=[-1]*self.n    # index into path; -1 off the map
        self.done=[False]*self.n
        n2=self.lns(t,budget-(time.process_time()-t1),None)
        print('T',self.T,'states',self.net.n,'cells',len(set(self.net.cell)),'D',np.mean(D),'rel',max(self.rel),'restarts',it,'planned',na,'cost',c0,'after',self.cost,sum(p is not None for p in self.paths),'its',n2,'cpu',round(time.process_time()-t1,2),flush=True)
        self.queues()
    def lns(self, t, budget, fixed):
        """Replan small groups of trains; paths are timed and free of conflicts from now on."""
        t1=time.process_time(); it=0; T=self.T
        pl=self.pl; paths=self.paths; rng=self.rng
        while time.process_time()-t1<budget:
            it+=1
            un=[i for i in range(self.n) if not self.done[i] and paths[i] is None]
            act=[i for i in range(self.n) if not self.done[i] and paths[i] is not None]
            if not act and not un: break
            m=rng.choice((3,5,8))
            mode=rng.random()
            if mode<.5 and act:
                # the most delayed trains, and some others
                w=[(rng.random()**(1.0/(1+self.delay(i))),i) for i in act]
                w.sort(reverse=True); grp=[i for _,i in w[:m]]
            else: grp=rng.sample(act,min(m,len(act)))
            if un: grp+=rng.sample(un,min(len(un),rng.choice((1,2))))
            old={i:paths[i] for i in grp}
            oc=sum(p[-1][0] if p else 2*T for p in old.values())
            for i in grp:
                if paths[i]: pl.release(paths[i])
            rng.shuffle(grp)
            if rng.random()<.4: grp.sort(key=lambda i:self.k[i]<0)
            new={}; nc=0; ok=True
            for i in grp:
                if self.k[i]>=0:
                    tt,s=old[i][0]; p=pl.plan(s,self.tc[i],max(tt,t),True,None) if not self.mal.get(i) else pl.plan_m(s,self)
                else: p=pl.plan(self.start[i],self.tc[i],max(t+1,self.rel[i]+1),False)
                if p is None:
                    if self.k[i]>=0: ok=False; break
                    nc+=2*T
                else: pl.reserve(p); nc+=p[-1][0]
                new[i]=p
                if nc>oc: ok=False; break
            if ok and nc<=oc:
                for i in grp: paths[i]=new[i]
                self.cost+=nc-oc
            else:
                for i,p in new.items():
                    if p: pl.release(p)
                for i in grp:
                    if old[i]: pl.reserve(old[i])
        return it
    mal={}
    def delay(self,i):
        p=self.paths[i]
        return max(0,p[-1][0]-self.rel[i]-self.net.distances(self.tc[i])[self.start[i]])
    # ---- execution: every cell is entered in the planned order
    def queues(self):
        cell=self.net.cell
        ev=[]
        for i,p in enumerate(self.paths):
            if p and not self.done[i]:
                for k in range(max(self.k[i],0),len(p)): ev.append((p[k][0],i,k,cell[p[k][1]]))
        ev.sort()
        self.q={}
        for t,i,k,c in ev: self.q.setdefault(c,deque()).append((i,k))
    def act(self, obs):
        if not self.ready: self.setup(obs)
        tr=obs['trains'].tolist(); t=int(obs['time'][0])
        net=self.net; cell=net.cell
        # progress
        broke=False
        for i,a in enumerate(tr):
            if self.done[i] or self.paths[i] is None: continue
            p=self.paths[i]
            if a[8]==6:
                for k in range(max(self.k[i],0),len(p)):
                    q=self.q[cell[p[k][1]]]
                    if (i,k) in q: q.remove((i,k))
                self.done[i]=True; continue
            if a[0]>=0:
                if self.k[i]<0: self.k[i]=0
                s=(a[0],a[1],a[2])
                while net.st[p[self.k[i]][1]]!=s:
                    q=self.q[cell[p[self.k[i]][1]]]
                    if (i,self.k[i]) in q: q.remove((i,self.k[i]))
                    self.k[i]+=1
                    if self.k[i]>=len(p): print('LOST',t,i,s,flush=True); self.k[i]=len(p)-1; break
        act=[0]*self.n
        memo={}
        def can(i):
            r=memo.get(i)
            if r is not None: return r
            memo[i]=False
            a=tr[i]
            if a[8] in (0,2,6) or (a[8]==5 and a[9]>0): return False
            k=self.k[i]+1; p=self.paths[i]
            if k>=len(p): return False
            q=self.q[cell[p[k][1]]]
            ok=False
            if q[0]==(i,k): ok=True
            elif len(q)>1 and q[1]==(i,k):
                j,kj=q[0]
                if self.k[j]==kj and not self.done[j] and can(j): ok=True
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
                    if len(net.succ[s])==1: act[i]=2
                    else: act[i]={0:2,1:3,3:1,2:2}[(d2-d)%4]
            elif on: act[i]=4
        return np.array(act,dtype=np.int64)
