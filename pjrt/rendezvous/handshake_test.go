package rendezvous

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

func TestWhoDoesNotKnowTheSecretIsRefused(t *testing.T) {
	server := serve(t)
	if _, err := Serve("127.0.0.1:0", "short"); err == nil {
		t.Error("a short secret is taken")
	}
	for _, wrong := range []string{"", "another secret of some job", secret + "!"} {
		_, err := Dial(context.Background(), server.Address(), wrong, Member{0, 2})
		wantCode(t, err, pjrt.PermissionDenied)
	}
	if n := len(server.table.members); n != 0 {
		t.Errorf("%d strangers are members", n)
	}
	if err := join(t, server, Member{0, 2}).Put("key", nil); err != nil {
		t.Error(err)
	}
}

func TestMembersAreRefused(t *testing.T) {
	server := serve(t)
	join(t, server, Member{1, 2})
	for _, c := range []struct {
		m    Member
		want string
	}{
		{Member{1, 2}, "process 1 has joined already"},
		{Member{0, 3}, "the job has 2 processes, not 3"},
		{Member{2, 2}, "process 2 of 2 makes no sense"},
		{Member{-1, 2}, "process -1 of 2 makes no sense"},
	} {
		_, err := Dial(context.Background(), server.Address(), secret, c.m)
		wantCode(t, err, pjrt.AlreadyExists)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v", err)
		}
	}
}

// TestAStoreThatDoesNotKnowTheSecretIsLeft: somebody else listens at the address, and passes on to the store
// of the job what it is told.
func TestAStoreThatDoesNotKnowTheSecretIsLeft(t *testing.T) {
	server := serve(t)
	for name, behave := range map[string]func(net.Conn){
		"garbage": func(conn net.Conn) { conn.Write(bytes.Repeat([]byte("HTTP"), 100)) },
		"a replay": func(conn net.Conn) {
			conn.Write(append([]byte(magic), make([]byte, nonceSize)...))
			io.ReadFull(conn, make([]byte, claimSize))
			conn.Write(make([]byte, verdictSize))
		},
		"a relay": func(conn net.Conn) {
			real, err := net.Dial("tcp", server.Address())
			if err != nil {
				return
			}
			defer real.Close()
			go io.Copy(real, conn)
			io.Copy(conn, real)
		},
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			go func() {
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					behave(conn)
					conn.Close()
				}
			}()
			_, err = Dial(context.Background(), listener.Addr().String(), secret, Member{0, 1})
			code := pjrt.Unauthenticated
			if name == "a relay" {
				code = pjrt.PermissionDenied // the store was told another address than its own
			}
			wantCode(t, err, code)
		})
	}
}

// TestStrangersKeepNobodyOut: as many as there are, and whatever they send.
func TestStrangersKeepNobodyOut(t *testing.T) {
	server := serve(t)
	for i := range 2 * maxStrangers {
		conn, err := net.Dial("tcp", server.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		switch i % 4 {
		case 1:
			conn.Write(make([]byte, claimSize))
		case 2:
			conn.Write(binary.LittleEndian.AppendUint32(nil, 1<<31))
		case 3:
			conn.Write(make([]byte, claimSize/2))
		}
	}
	if err := join(t, server, Member{0, 2}).Put("key", nil); err != nil {
		t.Error(err)
	}
	server.mu.Lock()
	defer server.mu.Unlock()
	if n := len(server.strangers); n > maxStrangers {
		t.Errorf("%d strangers are waited for", n)
	}
}

// TestOversizedRequestsEndTheirConnection: the others are served, and nothing is allocated for them.
func TestOversizedRequestsEndTheirConnection(t *testing.T) {
	server := serve(t)
	stays := join(t, server, Member{0, 2})
	for _, bad := range [][]byte{
		binary.LittleEndian.AppendUint32(nil, 1<<32-1),
		binary.LittleEndian.AppendUint32(nil, maxRequest+1),
		append(binary.LittleEndian.AppendUint32(nil, fixed), bytes.Repeat([]byte{255}, fixed)...),
		{1, 0, 0, 0, 7},
	} {
		rude := dial(t, server)
		rude.write.Lock()
		rude.conn.Write(bad)
		rude.write.Unlock()
		select {
		case <-rude.done:
		case <-time.After(time.Minute):
			t.Errorf("%v is waited with", bad)
		}
	}
	if err := stays.Put("key", nil); err != nil {
		t.Error(err)
	}
}

// TestManyMembersAtOnce: members displace each other while they prove who they are, and come again.
func TestManyMembersAtOnce(t *testing.T) {
	const secret, n = "the secret of a large job", 4 * maxStrangers
	server, err := Serve("127.0.0.1:0", secret)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	met := make(chan error)
	for i := range n {
		go func() {
			store, err := Dial(t.Context(), server.Address(), secret, Member{i, n})
			if err == nil {
				defer func() { _ = store.Close() }()
				_, err = store.Exchange("join", all, nil, time.Minute)
			}
			met <- err
		}()
	}
	for range n {
		if err := <-met; err != nil {
			t.Fatal(err)
		}
	}
}
