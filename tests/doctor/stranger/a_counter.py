"""CartPole with an own time limit; the wrapper's counter is not put back by reset."""

import gymnasium


class Limit(gymnasium.Wrapper):
    def __init__(self, env, limit, clear):
        super().__init__(env)
        self.limit, self.clear, self.count = limit, clear, 0

    def reset(self, **kwargs):
        if self.clear:
            self.count = 0
        return self.env.reset(**kwargs)

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.count += 1
        return obs, reward, terminated, truncated or self.count >= self.limit, info


def make(clear):
    return Limit(gymnasium.make("CartPole-v1").unwrapped, 200, clear)


def broken():
    return make(False)


def healthy():
    return make(True)


if __name__ == "__main__":
    from common import main

    main("a_counter", score_env=healthy)
